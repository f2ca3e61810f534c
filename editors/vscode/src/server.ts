import { type ChildProcess, spawn } from "node:child_process";
import { type Disposable, EventEmitter, type OutputChannel, type Uri, workspace } from "vscode";
import {
  CloseAction,
  DidChangeConfigurationNotification,
  ErrorAction,
  LanguageClient,
  type Middleware,
  State,
} from "vscode-languageclient/node";
import { type Advice, advice, broken, ended, nothingToStart } from "./advice";
import { condition, lastLine } from "./condition";
import { Crashes } from "./crashes";
import type { Environments } from "./environments";
import { type Launcher, launchers, search } from "./launchers";
import { surroundings } from "./surroundings";

const LANGUAGES = ["json", "jsonc", "json5", "hjson", "python", "shellscript", "makefile", "yaml"];

/**
 * The texts that the server may see; it says itself which of them are configs, and asks for notebooks on its own. The
 * pages of rules, which show what is wrong, are Markdown too, but no files.
 */
export const SELECTOR = [
  ...LANGUAGES.map((language) => ({ language })),
  ...["file", "untitled"].map((scheme) => ({ language: "markdown", scheme })),
  { scheme: "file", pattern: "**/{*requirements*.txt,pyproject.toml}" }, // which pin releases
];

/** A client that keeps its errors to the log: what people can do something about is told in words of ours. */
class Client extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** The language server: at most one, started on first use. */
export class Server implements Disposable {
  private readonly advised = new EventEmitter<Advice>();
  /** Why the server is not running, as soon as that is known. */
  readonly onAdvice = this.advised.event;
  private readonly published = new EventEmitter<Uri>();
  /** The server has checked a text again. */
  readonly onCheck = this.published.event;

  private readonly exited = new EventEmitter<ChildProcess>();
  private client: LanguageClient | undefined;
  private process: ChildProcess | undefined;
  private said = "";
  private readonly crashes = new Crashes();
  private queue: Promise<void> = Promise.resolve();
  private awake = false;
  private startedWith: Launcher | undefined;
  private lastAdvice: Advice | undefined;

  /** `folder` is where its programs run: one that holds nothing that Python could import. */
  constructor(
    private readonly folder: string,
    private readonly channel: OutputChannel,
    private readonly environments: Environments,
    private readonly middleware: Middleware,
  ) {}

  /** What the running server was started with. */
  get launcher(): Launcher | undefined {
    return this.startedWith;
  }

  /** Why the server is not running. */
  get advice(): Advice | undefined {
    return this.lastAdvice;
  }

  /** It was requested. */
  get isAwake(): boolean {
    return this.awake;
  }

  /** Start it, or restart it. */
  restart(): Promise<void> {
    this.awake = true;
    this.queue = this.queue
      .then(() => this.stop())
      .then(() => this.start())
      .catch((error) => this.advise(broken(error)));
    return this.queue;
  }

  /** Ask the server something, once it runs; undefined where it does not. */
  async request<Answer>(method: string, params: object): Promise<Answer | undefined> {
    await this.queue;
    return this.client?.state === State.Running ? this.client.sendRequest<Answer>(method, params) : undefined;
  }

  /** Tell the server that the settings are others now; it asks for them. */
  async reconfigure(): Promise<void> {
    await this.queue;
    if (this.client?.state === State.Running) {
      await this.client.sendNotification(DidChangeConfigurationNotification.type, { settings: null });
    }
  }

  dispose(): Promise<void> {
    return this.queue.then(() => this.stop());
  }

  private async start(): Promise<void> {
    this.lastAdvice = undefined;
    this.crashes.forget();
    if (!workspace.getConfiguration("ds-lint").get("enable", true)) {
      return;
    }
    const around = await surroundings(this.environments);
    const refusals: Advice[] = [];
    for (const launcher of launchers(around)) {
      const found = await condition(launcher, this.folder);
      this.channel.appendLine(`${launcher.command} (from ${launcher.origin}): ${found.state}`);
      if (found.state === "ready") {
        await this.connect(launcher);
        return;
      }
      refusals.push(advice(launcher, found, search("uv", around)));
    }
    this.advise(refusals[0] ?? nothingToStart(around.trusted));
  }

  private async connect(launcher: Launcher): Promise<void> {
    const client: LanguageClient = new Client("ds-lint", "ds-lint", () => this.spawn(launcher), {
      documentSelector: SELECTOR,
      outputChannel: this.channel,
      // VS Code shows findings itself, above the hover. A launch runs a script of the folder; once the user trusts it,
      // the server is restarted.
      initializationOptions: {
        ...workspace.getConfiguration("ds-lint"),
        findingsInHover: false,
        mayLaunch: workspace.isTrusted,
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => ({ action: this.closed(client, launcher), handled: true }),
      },
      middleware: {
        ...this.middleware,
        handleDiagnostics: (uri, diagnostics, next) => {
          next(uri, diagnostics);
          this.published.fire(uri);
        },
      },
    });
    this.client = client;
    this.startedWith = launcher;
    try {
      await Promise.race([client.start(), this.failing()]);
      if (client.state !== State.Running) {
        // The client takes a pipe that closes while it starts for a success.
        throw new Error("It ended while it started.");
      }
    } catch (error) {
      await ending(this.process);
      await this.stop();
      this.advise(ended(launcher, lastLine(this.said) || (error instanceof Error ? error.message : String(error))));
    }
  }

  /** Rejects when the process ends, which the client does not see of one that is very quick, or says nothing at all. */
  private failing(): Promise<never> {
    return new Promise((_, reject) => {
      const timer = setTimeout(() => reject(new Error("It did not answer for a minute.")), 60_000);
      const listener = this.exited.event((ended) => {
        if (ended === this.process) {
          clearTimeout(timer);
          listener.dispose();
          reject(new Error(`Its exit status is ${ended.exitCode}.`));
        }
      });
    });
  }

  private spawn(launcher: Launcher): Promise<ChildProcess> {
    const started = spawn(launcher.command, [...launcher.args, "lsp"], {
      cwd: this.folder,
      env: { ...process.env, PYTHONUTF8: "1" },
      windowsHide: true,
    });
    this.said = "";
    started.stderr.on("data", (data: Buffer) => {
      this.said = `${this.said}${data}`.slice(-4000);
    });
    this.process = started;
    started.once("exit", () => this.exited.fire(started));
    return new Promise((resolve, reject) => {
      started.once("spawn", () => resolve(started));
      started.once("error", reject);
    });
  }

  /** What to do about a server that is gone without having been asked to go. */
  private closed(client: LanguageClient, launcher: Launcher): CloseAction {
    if (client.state !== State.Running) {
      return CloseAction.DoNotRestart; // it never ran: connect() tells
    }
    if (this.crashes.mayRestart(Date.now())) {
      return CloseAction.Restart;
    }
    this.advise(ended(launcher, `It did so several times within minutes. ${lastLine(this.said)}`));
    return CloseAction.DoNotRestart;
  }

  private async stop(): Promise<void> {
    const { client, process } = this;
    this.client = undefined;
    this.process = undefined;
    this.startedWith = undefined;
    try {
      await client?.dispose();
    } catch {
      // it was gone already
    }
    process?.kill();
  }

  private advise(said: Advice): void {
    this.lastAdvice = said;
    this.channel.appendLine(said.message);
    this.advised.fire(said);
  }
}

/** Resolves when a process has ended and said all it had to say, or goes on for a second. */
function ending(process: ChildProcess | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (process === undefined || process.exitCode !== null) {
      setTimeout(resolve, 50);
    } else {
      process.once("close", () => resolve());
      setTimeout(resolve, 1000);
    }
  });
}
