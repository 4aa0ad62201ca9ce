{
  const chosen = localStorage.getItem(`stActiveTheme-${location.pathname}-v2`) ?? "";
  const dark = /dark/i.test(chosen) || (!/light/i.test(chosen) && matchMedia("(prefers-color-scheme: dark)").matches);
  document.currentScript.parentElement.dataset.scheme = dark ? "dark" : "light";
}
