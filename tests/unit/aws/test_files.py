"""Files of a session in S3 (spec MODEL-26)."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from perdure.agents.step import StepContext
from perdure.aws.files import MAX_FILE_BYTES, S3Files
from perdure.core.entries import FileRef
from perdure.errors import ConfigurationError
from perdure.models.base import FileData, GeneratedFile
from perdure.testing.moto import AwsInProcess
from tests.unit.agents.test_stop_policies import a_step as the_step


def a_step(session_id: str = "s-1", tenant: str = "t") -> StepContext:
    step = the_step()
    return StepContext(
        **{name: getattr(step, name) for name in StepContext.__dataclass_fields__}
        | {"session_id": session_id, "tenant": tenant}
    )


def upload(aws: AwsInProcess, reference: str, body: bytes, media_type: str) -> str:
    key = S3Files.key_of("t", "s-1", reference)
    aws.clients.s3.put_object(Bucket=aws.bucket, Key=key, Body=body, ContentType=media_type)
    return key


async def test_an_image_goes_as_an_address_that_works_for_a_short_time_and_the_rest_as_bytes(aws: AwsInProcess) -> None:
    key = upload(aws, "up/cat.png", b"pixels", "image/png")
    upload(aws, "up/page.pdf", b"page", "application/pdf")
    files = S3Files(aws.bucket, clients=aws.clients)

    image = await files.resolve(FileRef(reference="up/cat.png"), a_step())
    page = await files.resolve(FileRef(reference="up/page.pdf"), a_step())

    assert image is not None
    assert image.url is not None
    assert (image.media_type, image.data) == ("image/png", None)
    assert urlsplit(image.url).path.endswith(key)
    assert {"Signature", "X-Amz-Signature"} & parse_qs(urlsplit(image.url).query).keys()
    assert page == FileData(media_type="application/pdf", data=b"page")


async def test_images_go_as_bytes_when_the_prompt_is_to_stay_the_same(aws: AwsInProcess) -> None:
    upload(aws, "cat.png", b"pixels", "image/png")
    files = S3Files(aws.bucket, inline=True, clients=aws.clients)

    found = await files.resolve(FileRef(reference="cat.png", media_type="image/webp"), a_step())

    assert found == FileData(media_type="image/webp", data=b"pixels")


@pytest.mark.parametrize("reference", ["other.png", "../s-2/cat.png", "up/../cat.png", "/cat.png", "up//cat.png", ""])
async def test_what_is_not_there_or_no_reference_is_nothing(aws: AwsInProcess, reference: str) -> None:
    upload(aws, "cat.png", b"pixels", "image/png")

    assert await S3Files(aws.bucket, clients=aws.clients).resolve(FileRef(reference=reference), a_step()) is None


@pytest.mark.parametrize("step", [a_step(session_id="s-2"), a_step(tenant="u")], ids=["session", "tenant"])
async def test_no_reference_leads_to_the_file_of_another_session(aws: AwsInProcess, step: StepContext) -> None:
    upload(aws, "cat.png", b"pixels", "image/png")

    assert await S3Files(aws.bucket, clients=aws.clients).resolve(FileRef(reference="cat.png"), step) is None


async def test_a_file_that_is_too_large_to_send_along_counts_as_not_there(aws: AwsInProcess) -> None:
    upload(aws, "most.pdf", b"x" * MAX_FILE_BYTES, "application/pdf")
    upload(aws, "more.pdf", b"x" * (MAX_FILE_BYTES + 1), "application/pdf")
    files = S3Files(aws.bucket, clients=aws.clients)

    most = await files.resolve(FileRef(reference="most.pdf"), a_step())

    assert most is not None
    assert await files.resolve(FileRef(reference="more.pdf"), a_step()) is None


async def test_what_a_model_made_is_kept_once_and_found_again(aws: AwsInProcess) -> None:
    files = S3Files(aws.bucket, inline=True, clients=aws.clients)
    made = GeneratedFile(media_type="image/png", data=b"pixels", name="a cat")

    first, again = [await files.store(made, a_step()) for _ in range(2)]

    assert first == again
    assert first.name == "a cat"
    assert len(aws.clients.s3.list_objects_v2(Bucket=aws.bucket)["Contents"]) == 1
    assert await files.resolve(first, a_step()) == FileData(media_type="image/png", data=b"pixels")


async def test_an_address_of_a_provider_is_not_kept_and_a_missing_bucket_is_told(aws: AwsInProcess) -> None:
    with pytest.raises(ConfigurationError, match="came as an address"):
        await S3Files(aws.bucket, clients=aws.clients).store(GeneratedFile(media_type="image/*", url="x"), a_step())
    made = GeneratedFile(media_type="image/png", data=b"x")
    with pytest.raises(ConfigurationError):
        await S3Files("no-such-bucket", clients=aws.clients).store(made, a_step())


@pytest.mark.parametrize(
    "reference", ["..", "../cat.png", "up/../cat.png", "up/.hidden", "/cat.png", "up//cat.png", "", "a b"]
)
def test_a_reference_that_could_lead_out_of_its_place_has_no_key(reference: str) -> None:
    with pytest.raises(ValueError, match="is no reference of a file"):
        S3Files.key_of("t", "s-1", reference)
