"""A client without generated code: it reads services and messages from the server by reflection.

    client.py ADDRESS PART

runs one of the parts below and prints `good`, or fails and says what was wrong.
"""

import os
import sys

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status

START, END = "2026-12-01T00:00:00+08:00", "2027-01-01T00:00:00+08:00"
SERVICES = [f"tombola.v1.{name}Service" for name in ["Lottery", "Envelope", "Campaign"]]


class Client:
    """Calls methods with dictionaries in the JSON form of their messages."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        self.metadata = ()
        grpc.channel_ready_future(self.channel).result(timeout=60)
        self.reflection = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.reflection)

    def call(self, path, **body):
        service, method = path.split("/")
        if "." not in service:
            service = f"tombola.v1.{service}"
        described = self.pool.FindServiceByName(service).methods_by_name[method]
        request_class = message_factory.GetMessageClass(described.input_type)
        response_class = message_factory.GetMessageClass(described.output_type)
        call = self.channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        request = json_format.ParseDict(body, request_class(), descriptor_pool=self.pool)
        answer = call(request, timeout=60, metadata=self.metadata)
        return json_format.MessageToDict(answer, descriptor_pool=self.pool)

    def refusal(self, path, **body):
        """The error of a call that must fail."""
        try:
            answer = self.call(path, **body)
        except grpc.RpcError as error:
            return Refusal(error)
        raise AssertionError(f"{path} of {body} was not refused: {answer}")

    def apply(self, campaign_id="wheel", **fields):
        campaign = {
            "id": campaign_id,
            "timeZone": "Asia/Shanghai",
            "startTime": START,
            "endTime": END,
            "consolation": {"id": "points", "name": "5 points", "attributes": {"points": "5"}},
            "prizes": [
                {"id": "mug", "name": "Mug", "stock": 1000, "attributes": {"colour": "red"}}
            ],
            "pools": [{"id": "all", "deck": {"size": 1000, "cards": {"mug": 500}}}],
            **fields,
        }
        return self.call("CampaignService/ApplyCampaign", campaign=campaign, operator="python")


class Refusal:
    """A status with its details: `google.rpc.ErrorInfo`, `BadRequest`, `RetryInfo`."""

    def __init__(self, error):
        self.code = error.code().name
        self.text = error.details()
        self.info = self.violations = self.retry = None
        status = rpc_status.from_call(error)
        assert status is not None, f"no details: {error}"
        for detail in status.details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                self.info = unpacked(detail, error_details_pb2.ErrorInfo())
            elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                bad = unpacked(detail, error_details_pb2.BadRequest())
                self.violations = {v.field: v.description for v in bad.field_violations}
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = unpacked(detail, error_details_pb2.RetryInfo())
                self.retry = retry.retry_delay.ToTimedelta().total_seconds()

    def expect(self, code, reason, request_id=None):
        assert self.code == code, f"{self.code}, not {code}: {self.text}"
        assert self.text, "the status has no text"
        assert self.info.reason == reason, f"{self.info}, not {reason}"
        assert self.info.domain == "tombola.v1", self.info
        assert self.info.metadata["executed"] == "no", self.info
        if request_id is not None:
            assert self.info.metadata["request_id"] == request_id, self.info
        return self


def unpacked(detail, message):
    assert detail.Unpack(message)
    return message


def reflection(client):
    services = set(client.reflection.get_services())
    wanted = {*SERVICES, "grpc.health.v1.Health"}
    assert wanted <= services, services
    draw = client.pool.FindMessageTypeByName("tombola.v1.DrawRequest")
    assert "request_id" in draw.fields_by_name
    outcomes = client.pool.FindEnumTypeByName("tombola.v1.Outcome")
    assert outcomes.values_by_name["OUTCOME_WON"].number == 1
    for detail in ["ErrorInfo", "BadRequest", "RetryInfo"]:
        assert client.pool.FindMessageTypeByName(f"google.rpc.{detail}").fields, detail


def health(client):
    for service in ["", "liveness", *SERVICES]:
        answer = client.call("grpc.health.v1.Health/Check", service=service)
        assert answer == {"status": "SERVING"}, (service, answer)
    try:
        client.call("grpc.health.v1.Health/Check", service="tombola.v1.NoService")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
    else:
        raise AssertionError("a service that does not exist is healthy")


def draws(client):
    client.apply()
    ten = dict(
        campaignId="wheel", userId="u-1", requestId="r-1", count=10, funding="FUNDING_FREE"
    )
    first = client.call("LotteryService/Draw", **ten)
    assert first["requestId"] == "r-1" and "replayed" not in first, first
    assert first["durability"] == "DURABILITY_EMBEDDED", first
    results = first["results"]
    assert len(results) == 10, first
    for result in results:
        assert int(result["ledgerId"]["sequence"]) > 0, result
        if result["outcome"] == "OUTCOME_WON":
            assert result["prizeId"] == "mug" and result["prizeName"] == "Mug", result
            assert result["attributes"] == {"colour": "red"} and result["unitId"], result
        else:
            assert result["outcome"] == "OUTCOME_CONSOLATION", result
            assert result["prizeId"] == "points" and "unitId" not in result, result
    assert first["limits"]["drawsTotal"]["used"] == "10", first

    again = client.call("LotteryService/Draw", **ten)
    assert again == {**first, "replayed": True}, (first, again)
    names = dict(campaignId="wheel", userId="u-1", requestId="r-1")
    got = client.call("LotteryService/GetDraw", **names)
    assert got == {"draw": again}, (got, again)

    nameless = client.call("LotteryService/Draw", campaignId="wheel", userId="u-1")
    assert nameless["requestId"] and len(nameless["results"]) == 1, nameless
    names["requestId"] = nameless["requestId"]
    assert client.call("LotteryService/GetDraw", **names)["draw"]["results"] == nameless["results"]

    units = [r["unitId"] for r in results + nameless["results"] if "unitId" in r]
    assert len(units) == len(set(units)), units
    stats = client.call("CampaignService/GetStats", campaignId="wheel")
    assert stats["balanced"] and stats["draws"] == "11", stats


def limits(client):
    client.apply(limits={"drawsPerDay": 5, "drawsPerUser": 6})
    user = dict(campaignId="wheel", userId="u-1")
    drawn = 0
    while (check := client.call("LotteryService/CheckLimit", **user)).get("allowed"):
        client.call("LotteryService/Draw", **user)
        drawn += 1
        assert drawn <= 5, "more draws than the limit"
    assert drawn == 5 and check["reason"] == "ERROR_REASON_DRAWS_PER_DAY", check
    today = check["limits"]["drawsToday"]
    assert (today["limit"], today["used"], today["remaining"]) == ("5", "5", "0"), check
    assert today["resetTime"] == "2026-12-05T16:00:00Z", check

    refused = client.refusal("LotteryService/Draw", **user, requestId="late")
    refused.expect("RESOURCE_EXHAUSTED", "DRAWS_PER_DAY", "late")
    assert 0 < refused.retry <= 12 * 3600, refused.retry
    made = client.refusal("LotteryService/Draw", **user)
    made = made.expect("RESOURCE_EXHAUSTED", "DRAWS_PER_DAY")
    assert made.info.metadata["request_id"], "the error lacks the request id that the service made"
    missing = client.refusal("LotteryService/GetDraw", **user, requestId="late")
    missing.expect("NOT_FOUND", "DRAW_NOT_FOUND")

    # All or nothing: one draw is left, so two are refused, and the one is still left.
    paid = dict(**user, funding="FUNDING_PAID")
    whole = client.refusal("LotteryService/Draw", **paid, count=2)
    assert whole.expect("RESOURCE_EXHAUSTED", "DRAWS_PER_USER").retry is None, whole.retry
    client.call("LotteryService/Draw", **paid, count=1)
    grant = dict(campaignId="wheel", userIds=["u-1"], draws=1, operator="python")
    client.call("CampaignService/GrantDraws", **grant)
    assert client.call("LotteryService/CheckLimit", **user)["allowed"]
    assert len(client.call("LotteryService/Draw", **user)["results"]) == 1


def refusals(client):
    client.apply()
    good = dict(campaignId="wheel", userId="u-1", requestId="r-1")
    bad_ids = ["x" * 129, "老" * 43, "a\0b", "a\n", "\x85"]
    wrong = [(field, bad) for field in good for bad in bad_ids]
    wrong += [("campaignId", bad) for bad in ["{a}", "a b", "a/b", "café"]]
    wrong += [("campaignId", ""), ("userId", ""), ("count", 101), ("funding", 7)]
    wrong += [("paymentRef", "x" * 257), ("paymentRef", "a\tb")]
    for field, bad in wrong:
        refused = client.refusal("LotteryService/Draw", **{**good, field: bad})
        refused.expect("INVALID_ARGUMENT", "INVALID_REQUEST")
        assert list(refused.violations) == [snake(field)], (field, bad, refused.violations)
        assert refused.violations[snake(field)], "the violation is not described"
    wrong = dict(campaignId="", userId="a\tb", requestId="c\td", count=101)
    every = client.refusal("LotteryService/Draw", **wrong)
    fields = {"campaign_id", "user_id", "request_id", "count"}
    assert set(every.violations) == fields, every.violations

    client.refusal("LotteryService/Draw", **{**good, "campaignId": "none"}).expect(
        "NOT_FOUND", "CAMPAIGN_NOT_FOUND", "r-1"
    )
    client.refusal("LotteryService/Draw", **good, expireTime="2026-12-05T00:00:00Z").expect(
        "FAILED_PRECONDITION", "REQUEST_EXPIRED", "r-1"
    )
    client.refusal("LotteryService/GetDraw", **good).expect("NOT_FOUND", "DRAW_NOT_FOUND")
    client.call("LotteryService/Draw", **good)
    reused = client.refusal("LotteryService/Draw", **good, count=2)
    reused.expect("INVALID_ARGUMENT", "REQUEST_ID_REUSED", "r-1")
    client.refusal("LotteryService/Draw", **good, funding="FUNDING_PAID").expect(
        "INVALID_ARGUMENT", "REQUEST_ID_REUSED"
    )
    late = client.call("LotteryService/Draw", **good, expireTime="2026-12-05T00:00:00Z")
    assert late["replayed"], "a retry of a draw that was made is answered however late it is"
    assert client.call("CampaignService/GetStats", campaignId="wheel")["draws"] == "1"

    pause = dict(campaignId="wheel", operator="python", reason="lunch")
    client.call("CampaignService/PauseCampaign", **pause)
    client.refusal("LotteryService/Draw", **{**good, "requestId": "r-2"}).expect(
        "FAILED_PRECONDITION", "CAMPAIGN_PAUSED"
    )
    nameless = client.refusal("CampaignService/ResumeCampaign", campaignId="wheel")
    assert "operator" in nameless.expect("INVALID_ARGUMENT", "INVALID_REQUEST").violations
    short = client.refusal(
        "CampaignService/ApplyCampaign",
        operator="python",
        campaign={"id": "short", "timeZone": "Mars/Base", "startTime": END, "endTime": START},
    )
    violations = short.expect("INVALID_ARGUMENT", "INVALID_REQUEST").violations
    assert len(violations) >= 3, f"not every problem at once: {violations}"


def deadlines(client):
    """Calls whose deadlines all pass at once do not affect other calls of their channel.

    The service has at most those of two rounds before it: fewer than it takes for an attack.
    """
    client.apply()
    service = client.pool.FindServiceByName("tombola.v1.LotteryService")
    described = service.methods_by_name["CheckLimit"]
    request_class = message_factory.GetMessageClass(described.input_type)
    request = request_class(campaign_id="wheel", user_id="u-1")
    call = client.channel.unary_unary(
        "/tombola.v1.LotteryService/CheckLimit",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(described.output_type).FromString,
    )
    for _ in range(5):
        patient = [call.future(request, timeout=60) for _ in range(19)]
        hasty = [call.future(request, timeout=0.001 * (number % 20 + 1)) for number in range(500)]
        for answer in patient:
            assert answer.result().allowed
        for answer in hasty:
            assert answer.code() in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED), answer


def compressions(client):
    """Compressed requests are refused with a reason; the server takes none."""
    client.apply()
    service = client.pool.FindServiceByName("tombola.v1.LotteryService")
    described = service.methods_by_name["Draw"]
    request_class = message_factory.GetMessageClass(described.input_type)
    call = client.channel.unary_unary(
        "/tombola.v1.LotteryService/Draw",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(described.output_type).FromString,
    )
    # Many equal bytes, or the client sends them as they are.
    draw = request_class(campaign_id="wheel", user_id="u-1", payment_ref="x" * 200)
    for name in ["Gzip", "Deflate"]:
        try:
            call(draw, timeout=60, compression=grpc.Compression[name])
        except grpc.RpcError as error:
            refused = Refusal(error).expect("UNIMPLEMENTED", "INVALID_REQUEST")
            assert name.lower() in refused.text, refused.text
            assert "send it uncompressed" in refused.text, refused.text
        else:
            raise AssertionError(f"{name} is accepted")
    assert len(call(draw, timeout=60).results) == 1
    assert client.call("CampaignService/GetStats", campaignId="wheel")["draws"] == "1"


def token(client):
    """Against a server whose access file lets the token in TOKEN read `spring-...`."""
    own, other = {"campaignId": "spring-1"}, {"campaignId": "summer-1"}
    path = "CampaignService/GetCampaign"
    client.refusal(path, **own).expect("UNAUTHENTICATED", "CREDENTIALS_MISSING")
    client.metadata = (("authorization", "Bearer " + os.environ["TOKEN"]),)
    client.refusal(path, **own).expect("NOT_FOUND", "CAMPAIGN_NOT_FOUND")
    denied = client.refusal(path, **other).expect("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert denied.info.metadata["permission"] == "read", denied.info
    assert denied.info.metadata["campaign"] == "summer-1", denied.info
    assert client.call("LedgerService/ListWins") == {}
    client.metadata = (("authorization", "Bearer nobody's"),)
    client.refusal(path, **own).expect("UNAUTHENTICATED", "CREDENTIALS_INVALID")


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


PARTS = {
    part.__name__: part
    for part in [reflection, health, draws, limits, refusals, deadlines, compressions, token]
}

if __name__ == "__main__":
    address, part = sys.argv[1:]
    PARTS[part](Client(address))
    print("good")
