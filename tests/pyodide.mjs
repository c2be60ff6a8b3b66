// Runs Python in Pyodide: node pyodide.mjs PYODIDE PROGRAM WHEEL… prints what the program leaves in `answer`.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, program, ...wheels] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const python = await loadPyodide();
try {
    for (const wheel of wheels) python.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
    await python.runPythonAsync(readFileSync(program, "utf-8"));
    console.log(`ANSWER ${await python.runPythonAsync("import json; json.dumps(answer)")}`);
} catch (error) {  // node would print a line of a megabyte with it
    console.log(`FAILED ${error.message}`);
    process.exit(1);
}
