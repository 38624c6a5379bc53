// Answers about items that were written beforehand: of the groups of the data, as they are.

const [FURTHER, BARS, FOUND] = [40, 12, 20];

// One of the groups, or those whose names hold a text.
export function groupsOf(own, { text = "", index }) {
  if (index !== undefined) {
    const { items, ...rest } = own.groups[index];
    return { ...rest, items: items.map((code) => own.one(code)) };
  }
  const found = [...own.groups.keys()].filter((k) => own.groups[k].name.toLowerCase().includes(text.toLowerCase()));
  return { groups: found.slice(0, FOUND).map((k) => ({ index: k, name: own.groups[k].name })) };
}

export class WrittenItems {
  // `look(name, question)`: the answer that was written, undefined for none.
  constructor({ names, groups }, look) {
    Object.assign(this, { names, groups, look });
  }

  answer(name, question) {
    if (name === "search") return { items: (question.codes ?? []).map((code) => this.one(code)) };
    if (name === "group") return groupsOf(this, question);
    return name === "next" ? this.next(question) : this.look(name, question);
  }

  one(code) {
    return { code, name: this.names[code] };
  }

  // The bars of a context, with what they were in another one where that was written too.
  next({ items, values, before = items, before_values, also = [] }) {
    const now = this.further(items, values), then = this.further(before, before_values);
    if (now === undefined) return undefined;
    const earlier = new Map(then?.items.map((one) => [one.code, one.probability]));
    const listed = now.items.filter((one, k) => k < BARS || also.includes(one.code));
    return { items: listed.map((one) => ({ ...one, before: earlier.get(one.code) ?? null })) };
  }

  further(items, values) {
    const typed = values?.some((value) => value !== null) ? { values } : {};
    return this.look("next", { items, ...typed, k: FURTHER });
  }
}
