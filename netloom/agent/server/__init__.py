"""The agent's socket: accepts requests, hands each to its verb or RPC, records what came of it."""
