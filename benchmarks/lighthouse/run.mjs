// Lighthouse on one page, with the desktop preset. Reads {url, cookie, chromium, flags} from stdin, writes {scores, metrics, losses}.
import { launch } from "chrome-launcher";
import lighthouse, { desktopConfig } from "lighthouse";
import { text } from "node:stream/consumers";

const CATEGORIES = ["performance", "accessibility", "best-practices"];
const METRICS = ["first-contentful-paint", "largest-contentful-paint", "speed-index", "total-blocking-time", "cumulative-layout-shift"];

const { url, cookie, chromium, flags } = JSON.parse(await text(process.stdin));
const TRIES = 3; // now and then it loses the trace that it has recorded, and says so

async function look(options) {
  for (let left = TRIES; ; left -= 1) {
    const { lhr } = await lighthouse(url, options, desktopConfig);
    if (!lhr.runtimeError) return lhr;
    if (left === 1) throw new Error(lhr.runtimeError.message);
  }
}

const chrome = await launch({ chromePath: chromium, chromeFlags: flags, logLevel: "silent" });
try {
  const options = { port: chrome.port, onlyCategories: CATEGORIES, extraHeaders: { Cookie: cookie }, logLevel: "silent" };
  const lhr = await look(options);
  const lost = ({ score, scoreDisplayMode }) => score !== null && score < 0.9 && scoreDisplayMode !== "informative";
  const told = {
    version: lhr.lighthouseVersion,
    page: lhr.finalDisplayedUrl,
    scores: Object.fromEntries(CATEGORIES.map((name) => [name, Math.round(100 * lhr.categories[name].score)])),
    metrics: Object.fromEntries(METRICS.map((name) => [name, lhr.audits[name].numericValue])),
    losses: Object.values(lhr.audits).filter(lost).map(({ id, score, displayValue }) => ({ id, score, said: displayValue ?? "" })),
  };
  process.stdout.write(JSON.stringify(told));
} finally {
  chrome.kill();
}
