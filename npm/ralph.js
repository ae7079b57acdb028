#!/usr/bin/env node
// Starts the program from the package of this platform, which npm installs beside this one.
"use strict";
const { spawn } = require("node:child_process");
const { name } = require("./package.json");

let program;
try {
  program = require.resolve(`${name}-${process.platform}-${process.arch}/ralph`);
} catch {
  console.error(
    `error: there is no ralph for ${process.platform}-${process.arch} here; install without ` +
      "`--omit=optional`, or build it with cargo",
  );
  process.exit(69);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// Signals of the terminal reach the child by themselves; this process only must outlive it.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${program}: ${error.message}`);
  process.exit(69);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
