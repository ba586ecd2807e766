"""The listening socket of the server and of the studio."""

from __future__ import annotations

import asyncio
import socket

from maskwright.http.connections import listen
from web_client import run_async


def test_small_parts_of_a_response_are_sent_at_once():
    """Without TCP_NODELAY the body waits for the acknowledgment of the headers, which clients delay by 40 ms."""

    async def option_of_a_connection() -> int:
        found = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            found.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = listen(0)
        async with await asyncio.start_server(answer, sock=listening):
            _, client = await asyncio.open_connection(*listening.getsockname())
            option = await found
            client.close()
        return option

    assert run_async(option_of_a_connection()) != 0
