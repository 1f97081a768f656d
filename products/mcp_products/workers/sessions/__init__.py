"""HTTP endpoints of several workers that share a store: any worker serves any request of any session."""
