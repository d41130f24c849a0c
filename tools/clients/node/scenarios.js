// Scenarios of a JavaScript client: each a function, of which one line tells the result.
const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { inspect, isDeepStrictEqual } = require("node:util");

const url = process.env.CLIENT_URL;
const SECONDS = 20;

function same(got, expected) {
  const show = (value) => inspect(value, { breakLength: Infinity, depth: 5 });
  assert(isDeepStrictEqual(got, expected), `${show(got)}, expected ${show(expected)}`);
}

/** Requires that a call fails; with a SQLSTATE or with what the error must have. Returns the error. */
async function rejects(call, expected) {
  let found;
  try {
    await (typeof call === "function" ? call() : call);
  } catch (error) {
    found = error;
  }
  assert(found, "no error");
  const wanted = typeof expected === "string" ? { code: expected } : expected;
  const fields = driverError(found);
  for (const [name, value] of Object.entries(wanted ?? {})) {
    assert.strictEqual(fields[name], value, `${name} is ${fields[name]}, expected ${value}: ${found.message}`);
  }
  return found;
}

/** The driver's error, of the error that a library wraps around it. */
function driverError(error) {
  return error.original ?? error.driverError ?? (error.cause?.code ? error.cause : error);
}

function firstLine(error) {
  const { code } = driverError(error);
  const text = error.cause?.message ?? error.message ?? String(error);
  const lines = text.split("\n").filter((line) => line.trim());
  return `${error.name ?? "Error"}${code ? ` ${code}` : ""}: ${lines.slice(0, 3).join(" ")}`.replace(/\s+/g, " ");
}

function version(name) {
  return JSON.parse(readFileSync(join(process.env.NODE_PATH, name, "package.json"))).version;
}

function timeout() {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no end after ${SECONDS} s`)), SECONDS * 1000).unref();
  });
}

/** Runs scenarios, an object of functions by name, and goes on after one that fails. */
async function run(client, scenarios) {
  process.on("unhandledRejection", () => {});
  process.on("uncaughtException", (error) => console.log(`  beside the scenario: ${error.message}`));
  console.log(`version ${version(client)}`);
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (!name.includes(process.env.CLIENT_ONLY ?? "")) continue;
    try {
      await Promise.race([scenario(), timeout()]);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}: ${firstLine(error)}`);
      const details = `${error.stack}\n${error.sql ?? error.query ?? ""}`;
      console.log(
        details
          .split("\n")
          .map((line) => `  ${line}`)
          .join("\n"),
      );
    }
  }
  process.exit(0);
}

module.exports = { assert, rejects, run, same, url };
