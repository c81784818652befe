window.seenErrors = [];
addEventListener("error", (event) => seenErrors.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => seenErrors.push("policy: " + event.violatedDirective));
for (const name of ["error", "warn"]) console[name] = (...parts) => seenErrors.push(name + ": " + parts.join(" "));
