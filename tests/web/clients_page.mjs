// Runs in Chromium: other people's clients of the gateway, with descriptors that protoc wrote. Each function throws or returns
// what it saw.
import { createFileRegistry, fromBinary, toBinary, create } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { GrpcWebClientBase, MethodDescriptor, MethodType } from "grpc-web";
import { Upload } from "tus-js-client";

let registry;
const service = (name) => registry.getService(`nerf.v1.${name}`);
const message = (name) => registry.getMessage(`nerf.v1.${name}`);

function transportOf(kind, baseUrl) {
  if (kind === "grpc-web") return createGrpcWebTransport({ baseUrl });
  return createConnectTransport({ baseUrl, useBinaryFormat: kind === "connect-proto" });
}

const seen = (error) => {
  const found = ConnectError.from(error);
  const info = registry.getMessage("google.rpc.ErrorInfo");
  return { code: Code[found.code], message: found.rawMessage, reason: found.findDetails(info)[0]?.reason };
};

// The reason in the details of grpc-web's errors, which it gives as metadata.
function reasonIn(metadata) {
  const details = metadata?.["grpc-status-details-bin"];
  if (!details) return undefined;
  const status = fromBinary(registry.getMessage("google.rpc.Status"), Uint8Array.from(atob(details), (c) => c.charCodeAt(0)));
  const any = status.details.find(({ typeUrl }) => typeUrl.endsWith("/google.rpc.ErrorInfo"));
  return any && fromBinary(registry.getMessage("google.rpc.ErrorInfo"), any.value).reason;
}

window.clients = {
  // The clients know nothing of tokens, so what they send with gets one.
  load(descriptors, token) {
    const plainFetch = window.fetch;
    window.fetch = (input, init) => {
      const request = new Request(input, init);
      request.headers.set("Authorization", `Bearer ${token}`);
      return plainFetch(request);
    };
    const send = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (...body) {
      this.setRequestHeader("Authorization", `Bearer ${token}`);
      return send.apply(this, body);
    };
    const bytes = Uint8Array.from(atob(descriptors), (c) => c.charCodeAt(0));
    registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
  },

  async unary(kind, baseUrl, job) {
    const client = createClient(service("JobService"), transportOf(kind, baseUrl));
    const reply = await client.getJob({ name: job });
    return { name: reply.name, state: reply.state };
  },

  async error(kind, baseUrl) {
    const client = createClient(service("JobService"), transportOf(kind, baseUrl));
    try {
      await client.getJob({ name: "projects/default/jobs/none" });
    } catch (error) {
      return seen(error);
    }
  },

  async deadline(kind, baseUrl, job) {
    const client = createClient(service("JobService"), transportOf(kind, baseUrl));
    try {
      for await (const event of client.watchJob({ name: job }, { timeoutMs: 300 })) void event;
    } catch (error) {
      return seen(error);
    }
  },

  // Watches until the job is final, by cancelling it after the snapshot.
  async stream(kind, baseUrl, job) {
    const client = createClient(service("JobService"), transportOf(kind, baseUrl));
    const states = [];
    for await (const event of client.watchJob({ name: job })) {
      if (event.job) states.push(event.job.state);
      if (states.length === 1) await client.cancelJob({ name: job });
    }
    return states;
  },

  // Leaves a stream after its first message.
  async leave(kind, baseUrl, job) {
    const client = createClient(service("JobService"), transportOf(kind, baseUrl));
    const stop = new AbortController();
    try {
      for await (const event of client.watchJob({ name: job }, { signal: stop.signal })) {
        void event;
        stop.abort();
      }
    } catch (error) {
      return seen(error);
    }
  },

  // grpc-web's own runtime with descriptors written by hand.
  grpcWeb(format, baseUrl, method, input, output, request) {
    const client = new GrpcWebClientBase({ format });
    const descriptor = new MethodDescriptor(
      `/nerf.v1.${method}`,
      MethodType.UNARY,
      Object,
      Object,
      (value) => toBinary(message(input), create(message(input), value)),
      (bytes) => fromBinary(message(output), bytes),
    );
    return new Promise((resolve) => {
      client.rpcCall(`${baseUrl}/nerf.v1.${method}`, request, {}, descriptor, (error, reply) => {
        resolve(error ? { code: error.code, reason: reasonIn(error.metadata) } : { name: reply.name });
      });
    });
  },

  // Leaves the stream after its first message, or waits for its end.
  grpcWebStream(baseUrl, job, leaves, metadata = {}) {
    const client = new GrpcWebClientBase({ format: "text" });
    const descriptor = new MethodDescriptor(
      "/nerf.v1.JobService/WatchJob",
      MethodType.SERVER_STREAMING,
      Object,
      Object,
      (value) => toBinary(message("WatchJobRequest"), create(message("WatchJobRequest"), value)),
      (bytes) => fromBinary(message("WatchJobResponse"), bytes),
    );
    return new Promise((resolve) => {
      const stream = client.serverStreaming(`${baseUrl}/nerf.v1.JobService/WatchJob`, { name: job }, metadata, descriptor);
      stream.on("data", (event) => {
        if (!leaves) return;
        stream.cancel();
        resolve({ kind: event.kind });
      });
      stream.on("error", (error) => resolve({ code: error.code, message: error.message }));
    });
  },

  // tus-js-client on a blob's upload name, in parts, so that it asks for the offset and goes on.
  upload(url, text, chunkSize) {
    return new Promise((resolve) => {
      const upload = new Upload(new Blob([text]), {
        uploadUrl: url,
        chunkSize,
        retryDelays: null,
        onError: (error) => resolve(`error: ${error.message}`),
        onSuccess: () => resolve("done"),
      });
      upload.start();
    });
  },

  async download(url, headers) {
    const response = await fetch(url, { headers });
    return { status: response.status, text: await response.text(), type: response.headers.get("content-type"), range: response.headers.get("content-range") };
  },
};
