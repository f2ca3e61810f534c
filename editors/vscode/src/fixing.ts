import { type CodeAction, commands, Range, type TextDocument, window, workspace } from "vscode";

const FIX_ALL = "source.fixAll.ds-lint";

/**
 * Apply all safe fixes in the active editor. The server is asked directly: VS Code's own command for source actions drops
 * its request when the cursor moves, or diagnostics arrive, before the server has answered.
 */
export async function fixAll(): Promise<void> {
  const document = window.activeTextEditor?.document;
  if (document === undefined) {
    return;
  }
  const edit = (await actionsFor(document)).find((action) => action.kind?.value === FIX_ALL)?.edit;
  if (edit === undefined) {
    void window.showInformationMessage("ds-lint: Fix All found nothing that it can fix in this file.");
  } else {
    await workspace.applyEdit(edit);
  }
}

/** The actions for a text as it is now; what was typed before the answer came makes the places of its edits wrong. */
async function actionsFor(document: TextDocument): Promise<CodeAction[]> {
  const version = document.version;
  const whole = new Range(0, 0, document.lineCount, 0);
  const actions = await commands.executeCommand<CodeAction[]>(
    "vscode.executeCodeActionProvider",
    document.uri,
    whole,
    FIX_ALL,
  );
  return document.version === version ? actions : actionsFor(document);
}
