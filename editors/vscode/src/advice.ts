import type { Condition } from "./condition";
import type { Launcher } from "./launchers";

/** A command line that installs what is missing. */
export interface Installation {
  readonly command: string;
  readonly args: readonly string[];
}

/** The message for a user whose ds-lint does not start, and the actions that help. */
export interface Advice {
  readonly message: string;
  readonly install?: Installation | undefined;
  /** Trust in the folder would help. */
  readonly untrusted?: boolean;
}

const REQUIREMENT = "deepspeed-lint[lsp]";

/** What to say when there is nothing to start at all. */
export function nothingToStart(trusted: boolean): Advice {
  if (trusted) {
    return {
      message:
        "ds-lint is not running: no Python environment is selected, and there is no ds-lint on the PATH. Select the environment that you train in, or name its Python in the settings.",
    };
  }
  return {
    message:
      "ds-lint is not running: this folder is not trusted, so nothing in it is run, and there is no ds-lint outside of it. Trust the folder, or name a Python outside of it in your user settings.",
    untrusted: true,
  };
}

/** What to say about a launcher that cannot start the language server. `uv` is the program of that name, if any. */
export function advice(launcher: Launcher, found: Condition, uv: string | undefined): Advice {
  const where = `${launcher.command} (from ${launcher.origin})`;
  switch (found.state) {
    case "ready":
      throw new Error("a launcher that is ready needs no advice");
    case "no-python":
      return { message: `ds-lint is not running: ${where} is not a Python that runs. ${found.why}` };
    case "old-python":
      return {
        message: `ds-lint is not running: it needs Python 3.10 or newer, and ${where} is Python ${found.version}.`,
      };
    case "no-ds-lint":
      return {
        message: `ds-lint is not running: it is not installed for ${where}.`,
        install: installation(launcher, found.pip, uv),
      };
    case "old-ds-lint":
      return {
        message: `ds-lint is not running: ${where} has ds-lint ${found.version}, which has no language server yet.`,
        install: installation(launcher, found.pip, uv),
      };
    case "no-pygls":
      return {
        message: `ds-lint is not running: ${where} has ds-lint without its extra "lsp" (pygls), which the editor needs.`,
        install: installation(launcher, found.pip, uv),
      };
  }
}

/** What to say when the server ended, or was never there, for a reason that only it can tell. */
export function ended(launcher: Launcher, reason: string): Advice {
  return {
    message: `ds-lint is not running: ${launcher.command} (from ${launcher.origin}) ended. ${reason}`.trimEnd(),
  };
}

/** What to say when the extension itself could not start it. */
export function broken(error: unknown): Advice {
  return { message: `ds-lint is not running. ${error instanceof Error ? (error.stack ?? error.message) : error}` };
}

/** Environments that uv made have no pip; without either nothing is offered. */
function installation(launcher: Launcher, pip: boolean, uv: string | undefined): Installation | undefined {
  if (launcher.interpreter === undefined) {
    return undefined;
  }
  if (pip) {
    return { command: launcher.interpreter, args: ["-m", "pip", "install", "--upgrade", REQUIREMENT] };
  }
  return uv === undefined
    ? undefined
    : { command: uv, args: ["pip", "install", "--upgrade", "--python", launcher.interpreter, REQUIREMENT] };
}
