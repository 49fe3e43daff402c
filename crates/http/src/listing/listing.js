
"use strict";
const box = document.getElementById("filter");
const status = document.querySelector(".summary");
const summary = status.innerHTML;
const count = document.getElementsByClassName("entry").length;
// Looking at every row is put off until somebody filters or walks by arrow keys.
let known;
const groups = () => known ??= [...document.querySelectorAll("tbody")].map(body => {
  const rows = [...body.getElementsByClassName("entry")].map(row => {
    const link = row.querySelector("a");
    return { row, link, name: link.textContent.toLowerCase() };
  });
  return { body, rows, others: body.rows.length - rows.length };
});
const apply = () => {
  const words = box.value.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const { body, rows, others } of groups()) {
    let here = others;
    for (const { row, name } of rows) {
      const hidden = !words.every(word => name.includes(word));
      if (row.hidden !== hidden) row.hidden = hidden;
      here += !hidden;
    }
    body.hidden = !here;
    // Out of sight it would keep the height that it had with all its rows.
    body.style.contentVisibility = here < body.rows.length ? "visible" : "";
    shown += here - others;
  }
  if (box.value) status.textContent = `${shown} of ${count} entries match.`;
  else status.innerHTML = summary;
};
const visible = () => groups().flatMap(({ rows }) => rows.filter(({ row }) => !row.hidden));
box.hidden = count < 2;
box.addEventListener("input", apply);
box.addEventListener("keydown", event => {
  if (event.key === "Enter") visible()[0]?.link.click();
  if (event.key === "Escape") { box.value = ""; apply(); box.blur(); }
});
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const links = visible().map(({ link }) => link);
  const at = links.indexOf(document.activeElement);
  const next = event.key === "ArrowDown" ? at + 1 : at - 1;
  if (links[next]) { event.preventDefault(); links[next].focus(); }
  else if (event.key === "ArrowUp" && at === 0) { event.preventDefault(); box.focus(); }
});
