// What changed from one list of entries to another. A line keeps its number from stage to stage, so equal numbers are
// one line; a line that was made anew is matched by the names of its results.

const SIGNS = { same: "", added: "+", removed: "−", changed: "~", moved: "↕" };
const SAID = { same: "", added: "added", removed: "removed", changed: "changed", moved: "moved" };

/** For each entry of `left`, its partner in `right`, or -1. */
function partners(left, right) {
  // a line may run in several steps: the first of its entries is compared
  const byKey = new Map(right.items.map((entry) => [entry.key, entry.at]).reverse());
  const taken = new Set();
  const partner = left.items.map((entry) => {
    const at = byKey.get(entry.key);
    if (at === undefined || taken.has(at) || right.items[at].kind !== entry.kind) return -1;
    taken.add(at);
    return at;
  });
  const named = new Map();
  const name = (entry) => (entry.kind === "line" ? entry.stage.outs(entry.line).map((v) => entry.stage.valueName(v)).join() : null);
  right.items.forEach((entry) => {
    if (entry.kind === "line" && !taken.has(entry.at)) named.set(name(entry), entry.at);
  });
  left.items.forEach((entry, i) => {
    const at = partner[i] < 0 && entry.kind === "line" ? named.get(name(entry)) : undefined;
    if (at !== undefined && !taken.has(at)) { partner[i] = at; taken.add(at); }
  });
  return partner;
}

/** The entries of the left that keep their order: the longest increasing chain of partners, in n log n steps. */
function inOrder(partner) {
  const tails = [];
  const before = new Int32Array(partner.length).fill(-1);
  partner.forEach((at, i) => {
    if (at < 0) return;
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (partner[tails[middle]] < at) low = middle + 1; else high = middle;
    }
    before[i] = low > 0 ? tails[low - 1] : -1;
    tails[low] = i;
  });
  const kept = new Set();
  for (let i = tails.length > 0 ? tails.at(-1) : -1; i >= 0; i = before[i]) kept.add(i);
  return kept;
}

/** Rows of both lists side by side: `{ left, right, sign }` with places in the lists, or -1. */
function compared(left, right) {
  if (!left) return right.items.map((_, at) => ({ left: -1, right: at, sign: "same" }));
  const partner = partners(left, right);
  const kept = inOrder(partner);
  const matched = new Set(partner.filter((at) => at >= 0));
  const known = new Set(left.items.map((entry) => entry.key));
  const counts = (entry) => entry.kind !== "head";
  const rows = [];
  let next = 0;
  const rightUntil = (end) => {
    for (; next < end; next += 1) {
      const entry = right.items[next];
      const sign = matched.has(next) ? "moved" : known.has(entry.key) ? "same" : "added";
      rows.push({ left: -1, right: next, sign: counts(entry) ? sign : "same" });
    }
  };
  left.items.forEach((entry, i) => {
    if (kept.has(i)) {
      rightUntil(partner[i]);
      const same = !counts(entry) || left.plain(entry) === right.plain(right.items[partner[i]]);
      rows.push({ left: i, right: partner[i], sign: same ? "same" : "changed" });
      next = partner[i] + 1;
    } else {
      rows.push({ left: i, right: -1, sign: !counts(entry) ? "same" : partner[i] >= 0 ? "moved" : "removed" });
    }
  });
  rightUntil(right.items.length);
  return rows;
}

/** A filter as a function of an entry's texts and the sign of its row. */
function parsedFilter(source) {
  const terms = source.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
    const not = term.length > 1 && term.startsWith("-");
    const body = not ? term.slice(1) : term;
    const colon = body.indexOf(":");
    const field = colon > 0 ? body.slice(0, colon) : "";
    const known = ["op", "value", "type", "in", "file", "tag", "is"].includes(field);
    return { not, field: known ? field : "all", wanted: known ? body.slice(colon + 1) : body };
  });
  if (terms.length === 0) return null;
  return (texts, sign) => terms.every(({ not, field, wanted }) => {
    const has = field === "is" && wanted === "changed" ? sign !== "same" : texts[field].includes(wanted);
    return has !== not;
  });
}
