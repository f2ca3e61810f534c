import { window, workspace } from "vscode";
import type { Server } from "./server";
import { smokeArguments } from "./smoke";
import { runInTerminal } from "./terminal";

/** Train with the config in the active editor on trial, in a terminal. */
export async function runSmoke(server: Server): Promise<void> {
  const document = window.activeTextEditor?.document;
  const launcher = server.launcher;
  if (document === undefined || launcher === undefined) {
    void window.showWarningMessage(
      "ds-lint: Run Smoke trains with the config in the active editor, and there is none.",
    );
    return;
  }
  if ((document.isDirty || document.isUntitled) && !(await document.save())) {
    return;
  }
  const settings = workspace.getConfiguration("ds-lint", document.uri);
  const args = smokeArguments(document.uri.fsPath, (name) => settings.get(name));
  const folder = workspace.getWorkspaceFolder(document.uri) ?? workspace.workspaceFolders?.[0];
  await runInTerminal("Smoke", launcher.command, [...launcher.args, ...args], folder);
}
