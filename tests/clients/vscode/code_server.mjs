// Starts VS Code in a browser, with ds-lint's extension in it, and ends it.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ENTRY = fileURLToPath(new URL("../node_modules/code-server/out/node/entry.js", import.meta.url));

/** Settings under which VS Code does nothing of its own accord. */
export const QUIET = {
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
  "files.autoSave": "off", // in a browser it is on
  "git.enabled": false,
  "security.workspace.trust.startupPrompt": "never",
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "window.commandCenter": false,
  "editor.minimap.enabled": false,
  "editor.hover.delay": 100,
  "terminal.integrated.gpuAcceleration": "off", // so that its text can be read
};

/** VS Code with its files below `home`; `stop` leaves no process behind. */
export class CodeServer {
  constructor(home) {
    this.home = home;
    this.directories = ["--user-data-dir", join(home, "user"), "--extensions-dir", join(home, "extensions")];
    this.temporary = mkdtempSync(join(tmpdir(), "vscode-")); // its sockets need a short path
    this.environment = {
      ...process.env,
      TMPDIR: this.temporary,
      HOME: home,
      XDG_CONFIG_HOME: join(home, "config"),
      XDG_DATA_HOME: join(home, "data"),
      XDG_CACHE_HOME: join(home, "cache"),
    };
  }

  install(vsix) {
    const options = { env: this.environment, encoding: "utf8" };
    const ended = spawnSync(process.execPath, [ENTRY, ...this.directories, "--install-extension", vsix], options);
    if (ended.status !== 0) {
      throw new Error(`${vsix} was not installed: ${ended.stdout}${ended.stderr}`);
    }
  }

  /** The user's settings that it starts with. */
  settings(settings) {
    const folder = join(this.home, "user", "User");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "settings.json"), JSON.stringify(settings));
  }

  /** Start it; `trusting` takes every folder for one that the user trusts. */
  async start({ trusting }) {
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const args = ["--auth", "none", "--bind-addr", address, "--disable-telemetry", "--disable-update-check"];
    const all = [ENTRY, ...this.directories, ...args, ...(trusting ? ["--disable-workspace-trust"] : [])];
    this.process = spawn(process.execPath, all, { env: this.environment, stdio: "ignore", detached: true });
    this.address = `http://${address}`;
    await until(async () => (await fetch(`${this.address}/healthz`)).ok, 30_000);
  }

  stop() {
    if (this.process?.exitCode === null) {
      process.kill(-this.process.pid, "SIGKILL");
    }
    rmSync(this.temporary, { recursive: true, maxRetries: 5 });
  }
}

export function browser() {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
}

/** Wait until something holds that may also fail for a while; a busy machine takes ten times as long as an idle one. */
export async function until(holds, milliseconds = 20_000, state = () => "it did not hold") {
  const end = Date.now() + milliseconds;
  let reason;
  while (Date.now() < end) {
    try {
      const value = await holds();
      if (value) {
        return value;
      }
      reason = undefined;
    } catch (error) {
      reason = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited for ${milliseconds} ms: ${holds}: ${reason ?? (await state())}`);
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
