// Write the JSON Schema that the official tool makes of each NAME.ts in a folder, as the specification's scripts call it.
const fs = require("fs");
const path = require("path");
const [, , tool, folder] = process.argv;
const TJS = require(tool);

for (const name of fs.readdirSync(folder).filter((name) => name.endsWith(".ts"))) {
  const program = TJS.getProgramFromFiles([path.join(folder, name)], { skipLibCheck: true });
  const schema = TJS.generateSchema(program, "*", { required: true, defaultNumberType: "integer" });
  fs.writeFileSync(path.join(folder, name.replace(/ts$/, "json")), JSON.stringify(schema));
}
