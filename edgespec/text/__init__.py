"""From messages to tokens and from tokens to text. Knows no model library, no network, no terminal."""
