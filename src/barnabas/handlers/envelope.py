"""Envelope: a client's request that another broker forwards to the controller (KIP-590).

It carries the request with its header, the client's principal as Kafka serializes it, and the client's
address. The controller serves the request as that client: it authorizes and charges again. Only brokers send
envelopes, on the inter-broker listener. An envelope must hold a request that runs on the controller, so
envelopes cannot be nested.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasController
from barnabas.network.requests import InnerRequest, RequestTurn
from barnabas.protocol.api import response_class
from barnabas.protocol.framing import (
    LENGTH_BYTES,
    RequestHeader,
    decode_request_header,
    decode_response_in_steps,
    encode_request,
)
from barnabas.protocol.messages.replication import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError
from barnabas.security import BROKER, RequestContext, deserialized, of_envelope, serialized

if TYPE_CHECKING:
    from barnabas.network.requests import Dispatcher, Request

ELEMENTS = 150_000  # for the inner request and its response; the forwarding broker has a separate limit
_LOOPBACK = ip_address("127.0.0.1").packed


class EnvelopeNeeds(HasController, Protocol):
    @property
    def dispatcher(self) -> Dispatcher: ...


# -- the broker that forwards ---------------------------------------------------------------------------


def wrap(message: Message, version: int, context: RequestContext) -> EnvelopeRequest:
    """Wrap a client's request in an envelope."""
    header = RequestHeader(message.api_key, version, 0, context.client_id)
    frame = b"".join(encode_request(header, message))
    return EnvelopeRequest(frame[LENGTH_BYTES:], serialized(context.principal), _address(context.host))


async def unwrap(response: EnvelopeResponse, request_class: type[Message], version: int) -> Any:
    """Return the response in an envelope; raise KafkaError when the controller has not served the request."""
    if response.error_code or response.response_data is None:
        raise KafkaError(ErrorCode(response.error_code), "the controller did not accept the request")
    key = request_class.api_key
    try:
        data = memoryview(response.response_data)
        steps = decode_response_in_steps(key, version, response_class(key), data, ELEMENTS)
        return await RequestTurn().run(steps)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE, f"the controller's response is malformed: {error}"
        ) from error


def _address(host: str) -> bytes:
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:  # a request of this broker
        return _LOOPBACK


# -- the controller -------------------------------------------------------------------------------------


class _Forwarded(NamedTuple):
    request: InnerRequest
    header: RequestHeader
    body: memoryview


async def envelope(broker: EnvelopeNeeds, request: Request, message: EnvelopeRequest) -> EnvelopeResponse:
    if not broker.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        forwarded, header, body = _open(broker.dispatcher, request, message)
        inside = await RequestTurn().run(forwarded.route.decode_in_steps(body, ELEMENTS))
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    forwarded.route.count.value += 1
    route, is_of_broker = forwarded.route, forwarded.context.principal == BROKER
    function = route.handler.function if is_of_broker else route.in_turns  # as on the controller itself
    response = await forwarded.served(function, broker, inside)
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    parts: Any = await RequestTurn().run(forwarded.route.write_in_steps(header.correlation_id, response))
    return EnvelopeResponse(b"".join(parts)[LENGTH_BYTES:])


def _open(dispatcher: Dispatcher, request: Request, message: EnvelopeRequest) -> _Forwarded:
    data = memoryview(bytearray(message.request_data))
    header, position = decode_request_header(data, 0, len(data))
    handler = dispatcher.handlers.get(header.api_key)
    if handler is None or not handler.is_forwarded:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"API {header.api_key} is not forwarded")
    route = dispatcher.route_of(header.api_key, header.api_version)
    if route is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return _Forwarded(InnerRequest(route, _context(request, message, header)), header, data[position:])


def _context(request: Request, message: EnvelopeRequest, header: RequestHeader) -> RequestContext:
    try:
        principal = deserialized(message.request_principal or b"")
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    try:
        host = str(ip_address(bytes(message.client_host_address)))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return of_envelope(principal, request.context.listener, host, header.client_id)
