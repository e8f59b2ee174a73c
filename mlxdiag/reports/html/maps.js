"use strict";
(() => {
  const pick = document.getElementById("call");
  if (!pick) return;
  const calls = [...document.querySelectorAll(".call")];
  const show = () => calls.forEach((call) => { call.hidden = call.id !== pick.value; });
  pick.addEventListener("change", show);
  show();
  window.mlxdiagShowCall = (place) => {
    const call = calls.find((one) => Number(one.dataset.place) === place);
    if (!call) return false;
    pick.value = call.id;
    show();
    document.getElementById("masks").scrollIntoView({ block: "start" });
    pick.focus({ preventScroll: true });
    return true;
  };
})();
