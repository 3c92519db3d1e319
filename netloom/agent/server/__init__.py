"""The agent's socket: accepts requests, passes each to its verb or RPC, and records the outcome."""
