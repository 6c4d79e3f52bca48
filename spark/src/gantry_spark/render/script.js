(() => {
  const root = document.documentElement, button = document.querySelector(".theme"), themes = ["auto", "light", "dark"];
  const show = (theme) => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    button.textContent = "Colours: " + theme;
  };
  let kept = "auto";
  try { kept = localStorage.getItem("gantry-report-theme") || "auto"; } catch { /* a page from a file may have no storage */ }
  show(themes.includes(kept) ? kept : "auto");
  button.hidden = false;
  button.addEventListener("click", () => {
    kept = themes[(themes.indexOf(kept) + 1) % themes.length];
    show(kept);
    try { localStorage.setItem("gantry-report-theme", kept); } catch { /* as above */ }
  });

  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const isNumber = head.classList.contains("n");
      const was = head.getAttribute("aria-sort");
      const down = was ? was === "ascending" : isNumber;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.v;
      const compare = (one, other) => {
        const a = value(one), b = value(other);
        if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
        const order = isNumber || !(isNaN(a) || isNaN(b)) ? a - b : a.localeCompare(b);
        return down ? -order : order;
      };
      body.append(...[...body.rows].sort(compare));
    }));
  }

  const shown = 15;
  for (const table of document.querySelectorAll("table")) {
    const count = table.tBodies[0].rows.length;
    if (count <= shown + 5) continue;
    const more = document.createElement("button");
    const set = (all) => {
      table.classList.toggle("short", !all);
      more.textContent = all ? "Show fewer" : "Show all " + count;
      more.setAttribute("aria-expanded", all);
    };
    more.type = "button"; more.className = "all";
    more.addEventListener("click", () => set(table.classList.contains("short")));
    table.closest(".table").after(more);
    set(false);
  }

  for (const canvas of document.querySelectorAll(".canvas")) {
    const told = JSON.parse(canvas.dataset.under), steps = told.labels.length;
    const line = document.createElement("div"), box = document.createElement("div");
    line.className = "cursor"; box.className = "under"; line.hidden = box.hidden = true;
    canvas.append(line, box);
    canvas.addEventListener("pointerleave", () => { line.hidden = box.hidden = true; });
    canvas.addEventListener("pointermove", (event) => {
      if (!steps) return;
      const width = canvas.clientWidth, x = event.clientX - canvas.getBoundingClientRect().left;
      const step = Math.max(0, Math.min(steps - 1, told.middle ? Math.floor(x / width * steps) : Math.round(x / width * (steps - 1))));
      const at = told.middle ? (step + .5) / steps : steps > 1 ? step / (steps - 1) : .5;
      box.replaceChildren();
      const title = document.createElement("strong");
      title.textContent = told.labels[step];
      box.append(title);
      for (const series of told.series) {
        if (series.values[step] === null) continue;
        const row = document.createElement("div"), name = document.createElement("span"), value = document.createElement("span");
        name.textContent = series.name; value.textContent = series.values[step];
        row.append(name, value); box.append(row);
      }
      line.hidden = box.hidden = false;
      line.style.left = 100 * at + "%";
      const left = at * width;
      box.style.left = Math.max(0, Math.min(width - box.offsetWidth, left > width / 2 ? left - box.offsetWidth - 10 : left + 10)) + "px";
    });
  }
})();
