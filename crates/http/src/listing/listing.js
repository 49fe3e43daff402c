
"use strict";
const box = document.getElementById("filter");
const rows = [...document.querySelectorAll("tr.entry")].map(row => ({
  row, link: row.querySelector("a"), name: row.querySelector("span").textContent.toLowerCase(),
}));
const status = document.querySelector(".summary");
const summary = status.innerHTML;
const apply = () => {
  const words = box.value.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const { row, name } of rows) {
    row.hidden = !words.every(word => name.includes(word));
    shown += !row.hidden;
  }
  if (box.value) status.textContent = `${shown} of ${rows.length} entries match.`;
  else status.innerHTML = summary;
};
const visible = () => rows.filter(({ row }) => !row.hidden);
box.hidden = rows.length < 2;
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
