// The page as a file: its data and its address are its own.

settle({ root: document.getElementById("app") });
window.addEventListener("hashchange", () => { readAddress(); draw(); });
show(JSON.parse(document.getElementById("data").textContent));
