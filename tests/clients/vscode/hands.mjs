// What a user of VS Code does and sees.

import { until } from "./code_server.mjs";

export class Hands {
  constructor(page) {
    this.page = page;
  }

  /** Open a folder, and wait until its files are listed. */
  async openFolder(address, folder) {
    await this.page.goto(`${address}/?folder=${encodeURIComponent(folder)}`);
    await this.page.locator(".explorer-folders-view .monaco-list-row").first().waitFor({ timeout: 60_000 });
  }

  async open(file) {
    const row = this.page.locator(".explorer-folders-view .monaco-list-row", { hasText: file }).first();
    await row.dblclick();
    await this.page.locator(".tab.active", { hasText: file }).waitFor();
    await this.page.locator(".editor-group-container.active .editor-instance .view-line, .notebookOverlay .view-line").first().waitFor();
  }

  /** Put the cursor somewhere; lines and columns count from 1. */
  async goTo(line, column) {
    await this.page.locator(".editor-group-container.active .editor-instance .view-lines").first().click({ position: { x: 300, y: 5 } });
    await this.page.keyboard.press("Control+g");
    await this.page.locator(".quick-input-widget input").fill(`:${line}:${column}`);
    await this.page.keyboard.press("Enter");
    await this.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  }

  async type(text) {
    await this.page.keyboard.type(text, { delay: 40 });
  }

  async press(...keys) {
    for (const key of keys) {
      await this.page.keyboard.press(key);
    }
  }

  /** Save what was changed; afterwards it lies on the disk. */
  async save() {
    await this.page.locator(".tab.active.dirty").waitFor();
    await this.press("Control+s");
    await this.page.locator(".tab.active.dirty").waitFor({ state: "detached" });
  }

  /** Run a command; who does not find it, as of a part that VS Code is still loading, opens the list again. */
  async command(title) {
    const input = this.page.locator(".quick-input-widget input");
    const chosen = this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: title });
    await until(async () => {
      await this.press("Escape", "F1");
      await input.fill(`>${title}`, { timeout: 3_000 });
      await chosen.waitFor({ timeout: 3_000 });
      return true;
    });
    await this.press("Enter");
    await this.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  }

  async commandsLike(title) {
    await this.press("F1");
    await this.page.locator(".quick-input-widget input").waitFor();
    await this.page.locator(".quick-input-widget input").fill(`>${title}`);
    const texts = await this.texts(".quick-input-list .monaco-list-row");
    await this.press("Escape");
    return texts;
  }

  /** The words of an element that is seen sooner or later. */
  async texts(selector) {
    await this.page.locator(selector).first().waitFor();
    return this.page.locator(selector).allInnerTexts();
  }

  squiggles(severity = "warning") {
    return this.page.locator(`.squiggly-${severity}`).count();
  }

  async waitForSquiggles(number, severity = "error") {
    const shown = async () => `${await this.squiggles(severity)} squiggles instead of ${number}`;
    await until(async () => (await this.squiggles(severity)) === number, undefined, shown);
  }

  /** The hover at the cursor, one text for each who answers; who sees none, as of a server that starts, asks again. */
  async hover() {
    const hover = this.page.locator(".monaco-editor .monaco-hover:not(.hidden)").first();
    await until(async () => {
      await this.press("Control+k", "Control+i");
      await hover.locator(".hover-row:not(:has(.spinner))").first().waitFor({ timeout: 3_000 });
      return true;
    });
    await until(async () => !(await hover.innerText()).includes("Loading"));
    const texts = await hover.locator(".hover-row").allInnerTexts();
    return texts;
  }

  async closeWidgets() {
    await this.press("Escape", "Escape");
  }

  /** The entries of the quick fix menu at the cursor; it stays open. */
  async quickFixes() {
    await this.press("Control+.");
    return this.texts(".action-widget .monaco-list-row.action");
  }

  /** The suggestions, once the first is what is waited for; who sees none for a while asks for them. */
  suggestions(pattern) {
    const rows = this.page.locator(".suggest-widget.visible .monaco-list-row");
    let asksAt = Date.now() + 5_000;
    return until(async () => {
      if (Date.now() > asksAt && (await rows.count()) === 0) {
        asksAt = Date.now() + 5_000;
        await this.press("Control+Space");
      }
      const texts = await rows.allInnerTexts();
      return pattern.test(texts[0] ?? "") ? texts : undefined;
    });
  }

  /** The text that ds-lint has in the status bar, or null. */
  async status() {
    const item = this.statusItem();
    return (await item.count()) === 0 ? null : (await item.innerText()).trim();
  }

  async clickStatus() {
    await this.statusItem().click();
  }

  statusItem() {
    return this.page.locator('.statusbar-item[id$="ds-lint.target"]:visible');
  }

  async clickButton(title) {
    await this.page.locator(".notification-toast .monaco-button", { hasText: title }).click();
  }

  async closeNotifications() {
    await this.command("Notifications: Clear All Notifications");
    await this.page.locator(".notification-toast").waitFor({ state: "detached" });
  }

  async trustFolder() {
    await this.command("Workspaces: Manage Workspace Trust");
    await this.page.locator(".workspace-trust-editor .monaco-button", { hasText: /^Trust$/ }).click();
    await this.closeTab();
  }

  async closeTab() {
    await this.page.locator(".editor-group-container.active .tab.active .codicon-close").click();
  }

  async closeTerminal() {
    await this.command("Terminal: Kill All Terminals");
    await this.page.locator(".terminal-wrapper").waitFor({ state: "detached" });
    await this.press("Escape");
  }

  /** Write the settings of the machine that the folder lies on, as a user who works on a server does. */
  async settings(settings) {
    await this.command("Preferences: Open Remote Settings (JSON)");
    await this.page.locator(".tab.active", { hasText: "settings.json" }).waitFor();
    await this.page.locator(".editor-group-container.active .editor-instance .view-lines").first().click();
    await this.press("Control+a");
    await this.page.keyboard.insertText(JSON.stringify(settings));
    await this.save();
    await this.closeTab();
  }

  /** What the list of problems has of the file that is looked at. */
  async problems() {
    await this.command("Problems: Focus on Problems View");
    await this.page.locator(".markers-panel-container").waitFor();
    const texts = await this.page.locator(".markers-panel-container .monaco-list-row").allInnerTexts();
    await this.command("View: Toggle Problems");
    return texts;
  }

  /** Long enough for whatever is not to happen. */
  async settled() {
    await this.page.waitForTimeout(1500);
  }

  waitForStatus(pattern) {
    return until(async () => {
      const text = await this.status();
      return text !== null && pattern.test(text) ? text : undefined;
    });
  }

  /** The words in a page that VS Code shows in a frame of its own, once they hold what is waited for. */
  framed(pattern) {
    return until(async () => {
      for (const frame of this.page.frames()) {
        const text = await frame.evaluate(() => globalThis.document.body?.innerText ?? "").catch(() => "");
        if (frame !== this.page.mainFrame() && pattern.test(text)) {
          return text;
        }
      }
      return undefined;
    });
  }

  terminal(pattern, milliseconds = 60_000) {
    return until(async () => {
      const text = (await this.page.locator(".terminal-wrapper.active .xterm-rows > div").allInnerTexts()).join("\n");
      return pattern.test(text) ? text : undefined;
    }, milliseconds);
  }
}
