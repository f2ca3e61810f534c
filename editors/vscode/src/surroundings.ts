import { statSync } from "node:fs";
import { homedir } from "node:os";
import { workspace } from "vscode";
import type { Environments } from "./environments";
import type { Surroundings } from "./launchers";

/** What decides, here and now, which ds-lint is started. */
export async function surroundings(environments: Environments): Promise<Surroundings> {
  const settings = workspace.getConfiguration("ds-lint");
  const path = settings.get("path", "");
  const interpreter = settings.get("interpreter", "");
  const isNamed = (path || interpreter).trim() !== "";
  return {
    path,
    interpreter,
    selected: isNamed || !workspace.isTrusted ? undefined : await environments.selected(),
    folders: (workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath),
    trusted: workspace.isTrusted,
    home: homedir(),
    searchPath: process.env.PATH ?? "",
    platform: process.platform,
    isFile: (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false,
  };
}
