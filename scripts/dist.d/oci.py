"""An OCI image layout in a tar file: the binary and its licences, and nothing else."""

import hashlib
import json

import archive
import content
from release import SUMMARY, File

KIND = "application/vnd.oci.image"


def make(release, files, into):
    kept = [file for file in files if file.path == "usr/bin/sockeye" or file.path.startswith(f"{content.DOCUMENTS}/LICENSE")]
    layer = archive.tar(kept, release.epoch)
    packed = content.compressed(layer, release.is_fast)
    time = release.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.created": time,
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.title": "sockeye",
        "org.opencontainers.image.version": release.version,
    }
    platform = {"architecture": release.debian, "os": "linux"}
    if release.debian == "arm64":
        platform["variant"] = "v8"
    config = encoded({
        "created": time,
        **platform,
        "config": {"Entrypoint": ["/usr/bin/sockeye"], "Env": ["PATH=/usr/bin"], "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": time, "created_by": "scripts/dist"}],
    })
    manifest = encoded({
        "schemaVersion": 2,
        "mediaType": f"{KIND}.manifest.v1+json",
        "config": descriptor(f"{KIND}.config.v1+json", config),
        "layers": [descriptor(f"{KIND}.layer.v1.tar+gzip", packed)],
        "annotations": labels,
    })
    entry = descriptor(f"{KIND}.manifest.v1+json", manifest)
    entry |= {"platform": platform, "annotations": {"org.opencontainers.image.ref.name": release.version}}
    index = encoded({"schemaVersion": 2, "mediaType": f"{KIND}.index.v1+json", "manifests": [entry]})
    blobs = [File(f"blobs/sha256/{digest(blob).removeprefix('sha256:')}", blob) for blob in (packed, config, manifest)]
    layout = [File("oci-layout", encoded({"imageLayoutVersion": "1.0.0"})), File("index.json", index), *blobs]
    path = into / f"sockeye-{release.version}-{release.architecture}.oci.tar"
    path.write_bytes(archive.tar(layout, release.epoch))
    return path


def encoded(value):
    return json.dumps(value, indent=1, sort_keys=True).encode()


def digest(bytes):
    return f"sha256:{hashlib.sha256(bytes).hexdigest()}"


def descriptor(kind, bytes):
    return {"mediaType": kind, "digest": digest(bytes), "size": len(bytes)}
