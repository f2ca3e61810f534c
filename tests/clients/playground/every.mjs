// Asks the playground's worker requests, and prints the answers as a list: node every.mjs ADDRESS < REQUESTS

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [address] = process.argv.slice(2);
const requests = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
try {
  const page = await browser.newPage();
  await page.goto(address);
  const answers = await page.evaluate(async (given) => {
    const { Questions } = await import("./questions.js");
    const questions = new Questions();
    return Promise.all(given.map((request) => questions.ask(request)));
  }, requests);
  process.stdout.write(JSON.stringify(answers));
} finally {
  await browser.close();
}
