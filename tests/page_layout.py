"""How a browser lays a page out: what is too small, what overlaps, what lies beside the screen."""

from __future__ import annotations

import re
import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def measured(html, width, folder, script=""):
    """What the browser finds at this width: ``390 wide: `` and the faults, or what the script returns of the page."""
    page = html.replace("&", "&amp;").replace('"', "&quot;")
    own = f"const measure = page => {{ {script} }};" if script else "const measure = null;"
    (folder / "frame.html").write_text(
        f'<body style="margin:0"><iframe width={width} height=30000 style="border:0" srcdoc="{page}"></iframe>'
        f"<pre></pre><script>{own}{_MEASURE}</script>",
        encoding="utf-8",
    )
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
        "--window-size=1400,1000", "--virtual-time-budget=10000", "--dump-dom", f"{folder}/frame.html",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return re.search(r"<pre>(.*)</pre>", result.stdout)[1]


_MEASURE = """
document.querySelector("iframe").onload = event => {
  const page = event.target.contentDocument, found = [], boxes = [];
  if (measure) { document.querySelector("pre").textContent = measure(page); return; }
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), range = page.createRange();
    const folded = "thead, style, title, desc, details:not([open]) > :not(summary)";
    if (!text || walker.currentNode.parentElement.closest(folded)) continue;
    if (parseFloat(page.defaultView.getComputedStyle(walker.currentNode.parentElement).fontSize) < 12)
      found.push("small: " + text);
    range.selectNodeContents(walker.currentNode);
    for (const box of range.getClientRects()) if (box.width > 1) boxes.push([text, box]);
  }
  for (const [text, box] of boxes) {
    if (box.left < 0 || box.right > page.documentElement.clientWidth) found.push("outside: " + text);
    for (const [other, beside] of boxes)
      if (text != other && Math.min(box.right, beside.right) - Math.max(box.left, beside.left) > 1
          && Math.min(box.bottom, beside.bottom) - Math.max(box.top, beside.top) > 3)
        found.push(text + " over " + other);
  }
  document.querySelector("pre").textContent = page.documentElement.scrollWidth + " wide: " + found.join("; ");
};
"""
