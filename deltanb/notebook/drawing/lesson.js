(() => {
  const data = JSON.parse(document.getElementById("orders").textContent);
  const home = document.getElementById("lesson");
  let order = 0, at = 0;
  const make = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    return node;
  };
  const table = (head, rows) => {
    const made = make("table"), line = made.appendChild(make("tr"));
    head.forEach(name => line.append(make("th", name)));
    rows.forEach(row => made.append(row));
    return made;
  };
  const cells = (values, kind = "") => {
    const line = make("tr");
    values.forEach(one => line.append(make("td", one, {class: one === "" ? "" : kind})));
    return line;
  };
  const choice = make("select", undefined, {"aria-label": "order"});
  data.orders.forEach((one, place) => choice.append(make("option", one.label, {value: place})));
  const controls = make("div", undefined, {class: "controls"});
  const button = (text, move) => {
    const made = controls.appendChild(make("button", text, {type: "button"}));
    made.addEventListener("click", move);
    return made;
  };
  const last = () => data.orders[order].turns.length;
  const go = place => { at = Math.min(Math.max(place, 0), last()); show(); };
  const first = button("|◀ first", () => go(0)), back = button("◀ back", () => go(at - 1));
  const next = button("next ▶", () => go(at + 1)), end = button("last ▶|", () => go(last()));
  const status = make("p", undefined, {"aria-live": "polite"});
  const sides = make("div", undefined, {class: "sides"});
  const show = () => {
    const {turns, rows, number} = data.orders[order];
    first.disabled = back.disabled = at === 0;
    next.disabled = end.disabled = at === last();
    status.textContent = `turn ${at} of ${last()} (order number ${number})`;
    const lines = turns.map((turn, place) => {
      const [writer, did, words] = turn;
      const line = cells(data.writers.map(name => name === writer ? words : ""), did);
      line.prepend(make("td", place + 1));
      line.className = place + 1 === at ? "now" : place + 1 > at ? "later" : "";
      return line;
    });
    const then = make("div");
    (rows[at] || []).forEach(one => {
      const many = `${one.name} ${one.total} ${one.total === 1 ? "row" : "rows"}`.trim();
      then.append(make("p", many), table(one.columns, one.rows.map(row => cells(row))));
    });
    sides.replaceChildren(table(["turn", ...data.writers], lines), then);
  };
  choice.addEventListener("change", () => { order = Number(choice.value); go(0); });
  document.addEventListener("keydown", event => {
    if (event.target === choice || event.altKey || event.ctrlKey || event.metaKey) return;
    const moves = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last()};
    if (event.key in moves) { event.preventDefault(); go(moves[event.key]); }
  });
  home.append(choice, controls, status, sides);
  if (data.orders.length) show();
})();
