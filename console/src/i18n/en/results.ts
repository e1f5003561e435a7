export const results = {
  "results.tabs": "Pipelines",
  "results.see": "View results",
  "results.seeOf": "View results of {name}",
  "results.table": "Table: {name}",
  "results.share": "{part} of {all}",
  "results.created": "Created",
  "results.eta": "Time left",
  "results.attempts": "Attempts",
};
