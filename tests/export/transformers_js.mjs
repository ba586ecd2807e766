// Runs an exported folder with transformers.js: node transformers_js.mjs PACKAGES TASK FOLDER TEXTS OPTIONS
// PACKAGES: a folder with node_modules; TEXTS, OPTIONS: JSON. Prints the result as JSON.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [packages, task, folder, texts, options] = process.argv.slice(2);
const entry = createRequire(path.join(path.resolve(packages), "any.js")).resolve("@huggingface/transformers");
const { env, pipeline } = await import(pathToFileURL(entry));
env.allowRemoteModels = false;
env.localModelPath = path.dirname(path.resolve(folder));
const run = await pipeline(task, path.basename(folder), { dtype: "fp32", device: "cpu" });
const found = await run(JSON.parse(texts), JSON.parse(options));
console.log(JSON.stringify(found.tolist ? found.tolist() : found));
