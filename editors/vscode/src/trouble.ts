import { commands, type Disposable, window } from "vscode";
import type { Advice } from "./advice";
import { hasPythonExtension } from "./environments";
import type { Server } from "./server";
import { runInTerminal } from "./terminal";

const INSTALL = "Install ds-lint";
const SELECT = "Select Environment";
const TRUST = "Manage Trust";
const SETTINGS = "Open Settings";
const LOG = "Show Log";

/** Tell people why ds-lint does not run, each reason once, with buttons that do what would help. */
export class Trouble implements Disposable {
  private readonly told = new Set<string>();
  private readonly listener: Disposable;

  constructor(private readonly server: Server) {
    this.listener = server.onAdvice((advice) => {
      if (!this.told.has(advice.message)) {
        void this.tell(advice);
      }
    });
  }

  /** Tell it, however often it was told before. */
  async tell(advice: Advice): Promise<void> {
    this.told.add(advice.message);
    const { install } = advice;
    const remedies = [
      ...(install === undefined ? [] : [INSTALL]),
      ...(advice.untrusted ? [TRUST] : hasPythonExtension() ? [SELECT] : []),
      SETTINGS,
      LOG,
    ];
    const chosen = await window.showWarningMessage(advice.message, ...remedies);
    if (chosen === INSTALL && install !== undefined) {
      await runInTerminal("Install ds-lint", install.command, install.args, undefined);
      await this.restart();
    } else if (chosen === SELECT) {
      await commands.executeCommand("python.setInterpreter");
    } else if (chosen === TRUST) {
      await commands.executeCommand("workbench.trust.manage");
    } else if (chosen === SETTINGS) {
      await openSettings();
    } else if (chosen === LOG) {
      await commands.executeCommand("ds-lint.log");
    }
  }

  /** Restart the server, and show what is in the way even if it was shown before. */
  async restart(): Promise<void> {
    this.told.clear();
    await this.server.restart();
  }

  dispose(): void {
    this.listener.dispose();
  }
}

/** The page of settings, with ds-lint's alone on it. */
export async function openSettings(): Promise<void> {
  await commands.executeCommand("workbench.action.openSettings", "@ext:ds-lint.deepspeed-lint");
}
