// Opens the playground several times in one browser, and prints the milliseconds from each opening to the first finding:
// node first.mjs ADDRESS PROFILE TIMES

import { chromium } from "playwright-core";

const [address, profile, times] = process.argv.slice(2);
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
try {
  await browser.addInitScript(() => {
    new MutationObserver(() => {
      if (document.querySelector(".findings")) {
        globalThis.answered ??= performance.now(); // counts from the navigation
      }
    }).observe(document, { subtree: true, childList: true });
  });
  const taken = [];
  while (taken.length < Number(times)) {
    const page = await browser.newPage();
    await page.goto(address);
    await page.waitForFunction(() => globalThis.answered);
    taken.push(await page.evaluate(() => globalThis.answered));
    await page.close();
  }
  console.log(JSON.stringify(taken));
} finally {
  await browser.close();
}
