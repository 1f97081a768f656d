"""A server over stdio that is nothing but JSON: it answers as its words say, and runs with any Python.

Words: the protocol version that it has, "2026-07-28" for discovery; "--fail" ends it at once, "--spaces" writes a space
after each separator.
"""

import json
import os
import sys
import time


def answer(method, params, version):
    """Return the result of a request as JSON text, or None."""
    info = {"name": "raw", "version": "1"}
    if method == "initialize" and version < "2026":
        capabilities = {"tools": {}, "logging": {}, "acme": {"x": 1}}
        return json.dumps({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
    if method == "server/discover" and version >= "2026":
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}}}
        return json.dumps({**result, "supportedVersions": [version]})
    if method == "acme/odd":
        return '{ "number":1.50e2,  "b":[ ],"a":"\\u00e9" , "received":%s}' % json.dumps(params, sort_keys=True)
    if method == "tools/call":
        arguments = params.get("arguments", {})
        if "sleep" in arguments:
            time.sleep(arguments["sleep"])
        text = json.dumps({"pid": os.getpid(), "value": arguments.get("value"), "variable": os.environ.get("RAW")})
        extra = {"annotations": {"audience": ["user"], "lastModified": "2026-01-01T00:00:00Z"}}
        return json.dumps({"content": [{"type": "text", "text": text, **extra}], "acmeField": {"passes": True}})
    return None


def main(version):
    """Answer until the input ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            if message.get("method") == "notifications/acme":
                back = '{"jsonrpc":"2.0","method":"notifications/acme/back","params":%s}'
                print(back % json.dumps(message["params"]), flush=True)
            continue
        result = answer(message["method"], message.get("params") or {}, version)
        text = '"result":%s' % result
        if result is None:
            text = '"error":{"code":-32601,"message":"no such method","data":{"acme":1}}'
        form = '{"jsonrpc": "2.0", "id": %s, %s}' if "--spaces" in sys.argv else '{"jsonrpc":"2.0","id":%s,%s}'
        print(form % (json.dumps(message["id"]), text), flush=True)


if __name__ == "__main__":
    if "--fail" in sys.argv:
        sys.exit("it cannot start")
    main(sys.argv[1])
