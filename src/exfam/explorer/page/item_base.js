// The base of an item model, computed here: scores that are sums of weights, and their link.

import { groupsOf } from "./written_items.js";

const [BARS, FOUND, RAISING, RELATED, ENTRIES] = [12, 20, 3, 8, 12];
// As in exfam.efa.base: ridge_link.py, linear.py and classes.py.
const [SHARPNESS, LEAST_SCORE, LEAST_POWER, MOST, MEAN_LOG_SIZE] = [100, 1e-4, 0.05, 1000, 1.5];

export class ItemBase {
  constructor(tables) {
    Object.assign(this, tables);
    this.n = tables.names.length;
    this.weights = floats(tables.weights);
    this.log_popularity = floats(tables.log_popularity);
    if (tables.classes) {
      const { probability, log_size, weight } = tables.classes;
      this.classes = { probability: floats(probability), log_size: floats(log_size), weight };
      this.usual = this.likely([]);
    }
    this.folded = this.names.map((name) => name.toLowerCase());
    this.popularity = this.probabilities([]);
    this.start.items = largest(this.popularity).slice(0, FOUND).map((code) => this.one(code));
  }

  answer(name, question) {
    const ask = { search: this.search, next: this.next, why: this.why, raise: this.raise, related: this.relatedTo, group: this.group }[name];
    return ask?.call(this, question);
  }

  search({ text, codes }) {
    if (codes) return { items: codes.filter((code) => code < this.n).map((code) => this.one(code)) };
    const wanted = text.toLowerCase().trim();
    if (!wanted) return this.start;
    const found = [...this.folded.keys()].filter((code) => this.folded[code].includes(wanted));
    const begins = (code) => (this.folded[code].startsWith(wanted) ? 0 : 1);
    found.sort((a, b) => begins(a) - begins(b) || this.popularity[b] - this.popularity[a]);
    return { items: found.slice(0, FOUND).map((code) => this.one(code)), n_found: found.length };
  }

  next({ items, before = items, also = [], k = BARS }) {
    const [now, then] = [this.probabilities(items), this.probabilities(before)];
    const best = largest(now).slice(0, k).filter((code) => now[code] > 0);
    const listed = [...best, ...also.filter((code) => !best.includes(code))];
    return { items: listed.map((code) => ({ ...this.one(code), probability: now[code], before: then[code] })) };
  }

  why({ items, item }) {
    const probability = this.probabilities(items)[item];
    const known = new Set(items);
    const shares = (code) => items.filter((own) => own === code).length;
    const entries = items.map((code) => ({
      name: this.names[code], lag: null, contribution: this.weight(code, item) / shares(code),
    })).sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
    entries.push({ name: "(nothing)", lag: null, contribution: 0 });
    const [score, classes] = [this.score([...known], item), this.lifts([...known])[item]];
    return {
      ...this.one(item), score, base: this.output(score, item, known.size) + classes, classes, correction: 0,
      corrected: probability, alone: probability, probability, share: 0,
      entries: entries.slice(0, ENTRIES), n_entries: entries.length,
    };
  }

  raise({ items, item }) {
    const now = this.probabilities(items)[item];
    const tried = this.related[item].complements[0].filter((code) => !items.includes(code));
    const raised = tried.map((code) => ({ ...this.one(code), probability: this.probabilities([...items, code])[item] }))
      .filter((own) => own.probability > now).sort((a, b) => b.probability - a.probability);
    return { probability: now, items: raised.slice(0, RAISING), n_tried: tried.length };
  }

  relatedTo({ item }) {
    const listed = ([codes, strengths]) => codes.map((code, k) => ({ ...this.one(code), strength: strengths[k] }))
      .filter((own) => own.strength > 0).slice(0, RELATED);
    const { complements, substitutes } = this.related[item];
    return { ...this.one(item), complements: listed(complements), substitutes: listed(substitutes) };
  }

  group(question) {
    return groupsOf(this, question);
  }

  one(code) {
    return { code, name: this.names[code] };
  }

  weight(from, to) {
    return this.weights[from * this.n + to];
  }

  score(items, item) {
    return items.reduce((sum, code) => sum + this.weight(code, item), 0);
  }

  // Of every item as a further one of a set.
  probabilities(items) {
    const known = new Set(items);
    const context = [...known];
    const lifts = this.lifts(context);
    const outputs = this.names.map((_, item) => {
      const own = this.output(this.score(context, item), item, known.size) + lifts[item];
      // Where nothing else is left, all items are.
      if (!known.has(item) || known.size === this.n) return own;
      return this.repeat === null ? -Infinity : own - this.repeat;
    });
    const top = Math.max(...outputs);
    const odds = outputs.map((own) => Math.exp(own - top));
    const total = odds.reduce((sum, own) => sum + own, 0);
    return odds.map((own) => own / total);
  }

  // What the latent classes of sets add to outputs, of every item.
  lifts(context) {
    if (!this.classes || (context.length === 0 && this.least_size > 1)) return new Float64Array(this.n);
    const [weight, slope] = this.classes.weight;
    const by_size = weight + slope * this.logSize(context.length);
    return this.likely(context).map((chance, item) => by_size * Math.log(chance / this.usual[item]));
  }

  // Probabilities of items by the classes alone.
  likely(context) {
    const { probability, log_size } = this.classes;
    const n = log_size.length;
    const logs = Array.from(log_size, (own, k) => (
      context.reduce((sum, code) => sum + Math.log(probability[code * n + k]), own)));
    const top = Math.max(...logs);
    const odds = logs.map((own) => Math.exp(own - top));
    const total = odds.reduce((sum, own) => sum + own, 0);
    return Float64Array.from({ length: this.n }, (_, item) => (
      odds.reduce((sum, own, k) => sum + own * probability[item * n + k], 0) / total));
  }

  logSize(size) {
    return Math.log(Math.min(MOST, Math.max(this.least_size, size))) - MEAN_LOG_SIZE;
  }

  output(score, item, size) {
    const log_size = this.logSize(size);
    if (size === 0 && this.least_size > 1) return this.log_popularity[item];
    const line = this.numbers[0].map((number, k) => number + this.numbers[1][k] * log_size);
    const popularity = this.log_popularity[item];
    if (this.link === "line") {
      const chance = this.smooth ? chanceOf(score) : Math.max(0, score);
      return Math.max(LEAST_POWER, line[0]) * Math.log(Math.exp(line[1] + popularity) + chance);
    }
    const [by_popularity, by_score, by_link, by_curve, by_log, log_kappa] = line;
    return by_popularity * popularity + (by_curve * (popularity + 6) ** 2) / 10 + by_score * score +
      by_link * Math.log(chanceOf(score) + Math.exp(log_kappa + popularity)) +
      by_log * Math.log(Math.max(LEAST_SCORE, score));
  }
}

function chanceOf(score) {
  return Math.max(score, Math.log1p(Math.exp(Math.min(20, SHARPNESS * score))) / SHARPNESS);
}

function largest(numbers) {
  return [...numbers.keys()].sort((a, b) => numbers[b] - numbers[a]);
}

function floats(text) {
  return new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}
