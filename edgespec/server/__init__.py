"""The engine over HTTP, in the shape of OpenAI's API."""
