"""mcp-codegen: generates typed Python bindings from the official schemas of the Model Context Protocol.

A property of a schema becomes a field of a class on this way; each folder imports only those above it:

* `importer`: schema.ts of the specification → a normalized schema in schema/, proven equal to the official schema.json
* `model`: the normalized schema and the rows of schema/*.toml → types, methods and lifecycle, the IR (`model/ir.py`)
* `conversion`: two neighbouring revisions → how a message of the one becomes one of the other, as data
* `render`: the IR → Python, from templates/: `types` and `declarations` write the classes, `calls` the methods
* `catalog`: all revisions of schema/, each read once. `generate`: the files of a package

What else becomes an IR, and what else is made of one:

* `extensions`: a manifest and a schema, mounted on a revision. `protocols`: the documents of other JSON-RPC protocols
* `reports`: what changed between revisions, what is unclear in one, and a page with all
* `testkit`: test vectors, and programs that mock, record and replay one side of a connection
* `update`: a commit of the specification's repository is imported, compared, tried and written
* `servers`: a live server: wrappers, lock, comparison, bundle, entry of the registry, configuration of hosts
* `migrate`: programs of other SDKs become programs of this one
* `cli`: the commands, those for authors of servers in `cli/apps`. `output` writes files, all of them or none
"""
