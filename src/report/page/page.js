document.getElementById("view").textContent = "ralph";
