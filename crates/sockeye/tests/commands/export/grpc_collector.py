"""A collector of OpenTelemetry by gRPC: [CERTIFICATE KEY]. Prints the port that it listens on, then each request as a line of JSON: the method
and the message. It is busy for the first one, and takes the others. It serves until its standard input ends.
"""

import json
import sys
from concurrent import futures

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics

MESSAGES = {
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export":
        (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
}
is_busy = True


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method not in MESSAGES:
            return None
        request, response = MESSAGES[details.method]
        token = dict(details.invocation_metadata).get("x-token")

        def export(message, context):
            global is_busy
            print(json.dumps({"method": details.method, "token": token, "request": MessageToDict(message)}), flush=True)
            if is_busy:
                is_busy = False
                context.abort(grpc.StatusCode.UNAVAILABLE, "busy: 100 %")
            return response()

        return grpc.unary_unary_rpc_method_handler(export, request.FromString, response.SerializeToString)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((Handler(),))
    if sys.argv[1:]:
        certificate, key = (open(path, "rb").read() for path in sys.argv[1:3])
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)


main()
