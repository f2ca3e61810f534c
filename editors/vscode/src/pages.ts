import type { CodeActionContext, Diagnostic, Disposable, TextDocument, TextEditor } from "vscode";
import { CodeAction, CodeActionKind, commands, env, languages, Uri, window, workspace } from "vscode";
import { output } from "./condition";
import { asMarkdown, codeOf, languageOption, pagePath, subjectOf } from "./explaining";
import type { Server } from "./server";

const SCHEME = "ds-lint";
const SOURCE = "ds-lint";

/** The pages of rules and keys, as `ds-lint explain` prints them: no network is asked. */
export class Pages implements Disposable {
  private readonly provider: Disposable;

  constructor(
    private readonly server: Server,
    private readonly folder: string,
  ) {
    this.provider = workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => this.page(subjectOf(uri.path)),
    });
  }

  /** Open the page of a rule (`DS101`) or key; without one, that of the finding under the cursor. */
  async explain(subject?: string): Promise<void> {
    const wanted = subject ?? (await this.ask(window.activeTextEditor));
    if (wanted !== undefined) {
      await commands.executeCommand("markdown.showPreviewToSide", Uri.from({ scheme: SCHEME, path: pagePath(wanted) }));
    }
  }

  dispose(): void {
    this.provider.dispose();
  }

  private async ask(editor: TextEditor | undefined): Promise<string | undefined> {
    const findings = editor === undefined ? [] : findingsIn(editor.document);
    const here = findings.filter((finding) => editor !== undefined && finding.range.contains(editor.selection.active));
    if (here.length === 1 && here[0] !== undefined) {
      return codeOf(here[0]);
    }
    const listed = here.length > 0 ? here : findings;
    if (listed.length === 0) {
      return window.showInputBox({
        title: "ds-lint: Explain",
        prompt: "The code or name of a rule, or a key",
        placeHolder: "DS101, unknown-key, zero_optimization.stage",
      });
    }
    const chosen = await window.showQuickPick(
      listed.map((finding) => ({ label: codeOf(finding), description: finding.message.split("\n", 1)[0] ?? "" })),
      { title: "ds-lint: Explain", placeHolder: "Which finding?" },
    );
    return chosen?.label;
  }

  private async page(subject: string): Promise<string> {
    const launcher = this.server.launcher;
    if (launcher === undefined) {
      return "ds-lint is not running. The command *ds-lint: Restart Server* says why.";
    }
    try {
      const args = [...launcher.args, "explain", subject, ...languageOption(env.language)];
      return asMarkdown(await output(launcher.command, args, this.folder));
    } catch (error) {
      return `${error instanceof Error ? error.message : error}`;
    }
  }
}

/** Entries of the quick fix menu that open the pages of these findings. */
export function explanations(context: CodeActionContext): CodeAction[] {
  if (context.only !== undefined && !context.only.contains(CodeActionKind.QuickFix)) {
    return [];
  }
  const codes = new Map(context.diagnostics.filter(isOurs).map((finding) => [codeOf(finding), finding]));
  return [...codes].map(([code, finding]) => {
    const action = new CodeAction(`Explain ${code}`, CodeActionKind.QuickFix);
    action.diagnostics = [finding];
    action.command = { command: "ds-lint.explain", title: action.title, arguments: [code] };
    return action;
  });
}

function findingsIn(document: TextDocument): Diagnostic[] {
  return languages.getDiagnostics(document.uri).filter(isOurs);
}

function isOurs(finding: Diagnostic): boolean {
  return finding.source === SOURCE;
}
