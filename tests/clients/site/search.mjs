// Types queries into the search of a site, and prints the pages that it shows for each, the best first, as JSON.
//
//     node search.mjs http://127.0.0.1:8000/ '["loss is nan"]'

import { browser, until } from "../vscode/code_server.mjs";

const [site, queries] = [process.argv[2], JSON.parse(process.argv[3])];
const OPENS = ".md-search__button, .md-search__input"; // of Zensical, of mkdocs-material
const FIELD = 'input[role="combobox"], .md-search__input';
const LINKS = 'ol[role="listbox"] a, a.md-search-result__link';
const chromium = await browser();
try {
  const page = await chromium.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(site);
  await page.locator(OPENS).first().click();
  const field = page.locator(FIELD).first();
  const type = async (text) => {
    await field.fill(text);
    await field.press("End"); // mkdocs-material listens for keys
  };
  const links = async () => {
    const all = await page.locator(LINKS).evaluateAll((every) => every.map((link) => link.href));
    return all.filter((link) => /[?&]h=/.test(link)); // those of a query, not a selection for none
  };
  const found = {};
  for (const query of queries) {
    await type("");
    await until(async () => (await links()).length === 0);
    await type(query);
    const shown = await until(async () => ((await links()).length ? links() : undefined), 20_000, () => query);
    found[query] = [...new Set(shown.map((link) => link.replace(site, "").replace(/[?#].*/, "")))];
  }
  console.log(JSON.stringify(found));
} finally {
  await chromium.close();
}
