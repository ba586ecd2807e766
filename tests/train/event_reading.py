"""Reading a TensorBoard event file, written from the format's description and not from the writer."""

import struct


def bitwise_crc32c(data):
    """CRC-32C by long division, one bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            carry = (crc ^ byte >> bit) & 1
            crc = crc >> 1 ^ (0x82F63B78 if carry else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = bitwise_crc32c(data)
    return ((crc >> 15) + (crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32


def blocks(path):
    """The data of each block, both checksums compared."""
    content = path.read_bytes()
    place = 0
    while place < len(content):
        head = content[place : place + 8]
        length, check = struct.unpack("<QI", content[place : place + 12])
        data = content[place + 12 : place + 12 + length]
        assert check == masked(head)
        assert struct.unpack("<I", content[place + 12 + length : place + 16 + length])[0] == masked(data)
        place += 16 + length
        yield data


def fields(data):
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        value = data[place : place + size]
        place += size
        yield number, struct.unpack("<d" if kind == 1 else "<f", value)[0] if kind in (1, 5) else value


def events(path):
    """(step, tag, value) of every scalar, in the order of the file; the first block gives the version."""
    first, *rest = blocks(path)
    assert dict(fields(first))[3] == b"brain.Event:2"
    found = []
    for data in rest:
        event = dict(fields(data))
        assert event[1] > 1.6e9, "the time of an event is long ago"
        for _, value in fields(event[5]):
            pair = dict(fields(value))
            found.append((event[2], pair[1].decode(), pair[2]))
    return found
