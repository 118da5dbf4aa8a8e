"""The twin of `flask_ocr` for FastAPI: it uses the client for asyncio."""
