import { commands, type ExtensionContext, languages, type TextDocument, window, workspace } from "vscode";
import { Environments } from "./environments";
import { fixAll } from "./fixing";
import { mayBeConfig } from "./marks";
import { middleware } from "./middleware";
import { Pages } from "./pages";
import { SELECTOR, Server } from "./server";
import { runSmoke } from "./smoke_command";
import { Status } from "./status";
import { Trouble } from "./trouble";

const CHOOSE_THE_SERVER = ["ds-lint.enable", "ds-lint.path", "ds-lint.interpreter"];

let running: Server | undefined;

export function activate(context: ExtensionContext): void {
  const folder = context.extensionPath;
  const channel = window.createOutputChannel("ds-lint");
  const environments = new Environments();
  const server = new Server(folder, channel, environments, middleware);
  const trouble = new Trouble(server);
  const pages = new Pages(server, folder);
  const status = new Status(server, trouble, isLikely);
  const wake = (document: TextDocument) => {
    if (!server.isAwake && isLikely(document)) {
      void server.restart();
    }
  };
  const startAnew = () => {
    if (server.isAwake) {
      void server.restart();
    }
  };
  context.subscriptions.push(
    channel,
    environments,
    trouble,
    pages,
    status,
    commands.registerCommand("ds-lint.explain", (subject: unknown) =>
      pages.explain(typeof subject === "string" ? subject : undefined),
    ),
    commands.registerCommand("ds-lint.smoke", () => runSmoke(server)),
    commands.registerCommand("ds-lint.fixAll", fixAll),
    commands.registerCommand("ds-lint.restart", () => trouble.restart()),
    commands.registerCommand("ds-lint.target", () => status.explain()),
    commands.registerCommand("ds-lint.log", () => channel.show()),
    workspace.onDidOpenTextDocument(wake),
    workspace.onDidChangeTextDocument((change) => wake(change.document)),
    workspace.onDidGrantWorkspaceTrust(startAnew),
    workspace.onDidChangeConfiguration((change) => {
      if (CHOOSE_THE_SERVER.some((setting) => change.affectsConfiguration(setting))) {
        startAnew();
      } else if (change.affectsConfiguration("ds-lint")) {
        void server.reconfigure();
      }
    }),
    environments.onSelection(startAnew),
  );
  workspace.textDocuments.forEach(wake);
  running = server;
}

export async function deactivate(): Promise<void> {
  await running?.dispose();
}

/** Whether a text is worth starting the server for. */
function isLikely(document: TextDocument): boolean {
  return languages.match(SELECTOR, document) > 0 && mayBeConfig(document.uri.path, document.getText());
}
