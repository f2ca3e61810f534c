import { posix, win32 } from "node:path";

/** What starts ds-lint: a program and the arguments that come before ds-lint's own. */
export interface Launcher {
  readonly command: string;
  readonly args: readonly string[];
  /** Who named it, in words that end a sentence: "ds-lint.interpreter in the settings". */
  readonly origin: string;
  /** The Python that can be asked what it has; a ds-lint program does not say where its Python is. */
  readonly interpreter: string | undefined;
}

/** What the editor knows that decides which ds-lint is started. */
export interface Surroundings {
  /** The settings ds-lint.path and ds-lint.interpreter, as they are written. */
  readonly path: string;
  readonly interpreter: string;
  /** The environment that is selected in the Python extension. */
  readonly selected: string | undefined;
  readonly folders: readonly string[];
  /** Nothing that lies in a folder is run before the user trusts it. */
  readonly trusted: boolean;
  readonly home: string;
  /** The variable PATH. */
  readonly searchPath: string;
  readonly platform: NodeJS.Platform;
  isFile(path: string): boolean;
}

/**
 * The ways to start ds-lint, best first. A path in the settings stands alone: what was asked for is run, or it is said
 * why it cannot be.
 */
export function launchers(around: Surroundings): Launcher[] {
  const asked = around.path.trim() || around.interpreter.trim();
  if (asked) {
    const path = absolute(asked, around);
    const chosen = around.path.trim()
      ? program(path, "ds-lint.path in the settings")
      : python(path, "ds-lint.interpreter in the settings");
    return mayRun(path, around) ? [chosen] : [];
  }
  const found: Launcher[] = [];
  if (around.selected !== undefined) {
    found.push(python(around.selected, "the Python extension"));
  }
  for (const folder of around.folders) {
    for (const environment of [".venv", "venv"]) {
      const path = interpreterOf(paths(around).join(folder, environment), around.platform);
      if (around.isFile(path)) {
        found.push(python(path, `${environment} in the folder`));
      }
    }
  }
  const onPath = search("ds-lint", around);
  if (onPath !== undefined) {
    found.push(program(onPath, "the PATH"));
  }
  return found.filter((launcher) => mayRun(launcher.command, around));
}

/** The Python of a virtual environment. */
export function interpreterOf(environment: string, platform: NodeJS.Platform): string {
  return platform === "win32"
    ? win32.join(environment, "Scripts", "python.exe")
    : posix.join(environment, "bin", "python");
}

/** Where a program lies on the PATH; never in the current directory, where Windows would look first. */
export function search(name: string, around: Surroundings): string | undefined {
  const { delimiter, isAbsolute, join } = paths(around);
  const file = around.platform === "win32" ? `${name}.exe` : name;
  return around.searchPath
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, file))
    .find((path) => around.isFile(path));
}

function python(path: string, origin: string): Launcher {
  return { command: path, args: ["-m", "ds_lint"], origin, interpreter: path };
}

function program(path: string, origin: string): Launcher {
  return { command: path, args: [], origin, interpreter: undefined };
}

/** A path of the settings: `~`, `${workspaceFolder}` and paths from the folder are understood. */
function absolute(written: string, around: Surroundings): string {
  const { join, resolve } = paths(around);
  const folder = around.folders[0] ?? around.home;
  // biome-ignore lint/suspicious/noTemplateCurlyInString: as people write it in VS Code's settings
  const path = written.trim().replaceAll("${workspaceFolder}", folder);
  return /^~(?=$|[/\\])/.test(path) ? join(around.home, path.slice(1)) : resolve(folder, path);
}

function mayRun(path: string, around: Surroundings): boolean {
  return around.trusted || !around.folders.some((folder) => isBelow(folder, path, around));
}

function isBelow(folder: string, path: string, around: Surroundings): boolean {
  const { isAbsolute, relative } = paths(around);
  const way = relative(folder, path);
  return !isAbsolute(way) && way.split(/[/\\]/)[0] !== "..";
}

function paths(around: Surroundings): typeof posix {
  return around.platform === "win32" ? win32 : posix;
}
