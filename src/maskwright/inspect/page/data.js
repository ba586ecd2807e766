// The numbers of the page: base64, compressed, float16 or one byte of a root; all become Float32Array.

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpack(packed) {
  if (!packed) return null;
  const raw = await inflate(Uint8Array.from(atob(packed.bytes), (letter) => letter.charCodeAt(0)));
  packed.bytes = null;
  return { shape: packed.shape, values: DECODERS[packed.kind](raw) };
}

const ROOTS = Float32Array.from({ length: 256 }, (_, i) => (i / 255) ** 2);
const DECODERS = {
  f32: (raw) => new Float32Array(raw.buffer, raw.byteOffset, raw.byteLength / 4),
  f16: (raw) => Float32Array.from(new Uint16Array(raw.buffer, raw.byteOffset, raw.byteLength / 2), half),
  root: (raw) => ({ byte: raw, length: raw.length }),
};

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const part = bits & 1023;
  if (exponent === 0) return sign * part * 2 ** -24;
  return sign * (1 + part / 1024) * 2 ** (exponent - 15);
}

// Rows of the last axis. Bytes are converted on access: a long text has tens of millions of them.
class Table {
  constructor({ shape, values }) {
    this.shape = shape;
    this.bytes = values.byte || null;
    this.values = this.bytes ? null : values;
    this.width = shape[shape.length - 1];
  }

  row(...place) {
    const at = this.start(place);
    if (!this.bytes) return this.values.subarray(at, at + this.width);
    return Float32Array.from(this.bytes.subarray(at, at + this.width), (byte) => ROOTS[byte]);
  }

  get(...place) {
    const at = this.start(place.slice(0, -1)) + place[place.length - 1];
    return this.bytes ? ROOTS[this.bytes[at]] : this.values[at];
  }

  start(place) {
    let at = 0;
    for (let axis = 0; axis < this.shape.length - 1; axis++) at = at * this.shape[axis] + place[axis];
    return at * this.width;
  }
}

// Unpack the numbers of a page in place.
async function load(data) {
  const table = async (packed) => (packed ? new Table(await unpack(packed)) : null);
  for (const reading of data.readings) {
    for (const map of reading.maps) {
      map.weights = await table(map.weights);
      map.rollout = await table(map.rollout);
      map.flow = await table(map.flow);
      if (map.neurons)
        map.neurons = { query: await table(map.neurons.query), key: await table(map.neurons.key), position: await table(map.neurons.position) };
    }
    for (const name of ["turns", "norms", "planes", "near"]) reading.states[name] = await table(reading.states[name]);
    if (reading.predictions) reading.predictions.probabilities = await table(reading.predictions.probabilities);
    if (reading.steps) for (const name of ["inputs", "value", "joined", "output"]) reading.steps[name] = await table(reading.steps[name]);
  }
  return data;
}
