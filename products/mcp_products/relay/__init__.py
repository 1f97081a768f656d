"""Any client to any server: a bridge, a gateway and `App.proxy`."""
