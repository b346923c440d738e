/* A Triton backend whose requests take as long as they ask for: the first input is an INT32, the service time in
 * milliseconds, which comes back as the output `done`. What is real is the server around it: its scheduler, its queue
 * and the counters that it exports. No Python runs inside the server, so no interpreter has to match it.
 *
 * The declarations are those parts of Triton's backend API 1.x that are used here (docs: triton-inference-server/core,
 * tritonbackend.h). Every call returns NULL, or an error that the caller owns.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct TRITONSERVER_Error Error;
typedef struct TRITONBACKEND_Input Input;
typedef struct TRITONBACKEND_Output Output;
typedef struct TRITONBACKEND_Request Request;
typedef struct TRITONBACKEND_Response Response;
typedef struct TRITONBACKEND_ModelInstance Instance;

enum { DATATYPE_INT32 = 8, MEMORY_CPU = 0, RESPONSE_FINAL = 1, RELEASE_ALL = 1, ERROR_INVALID_ARGUMENT = 3 };

Error *TRITONSERVER_ErrorNew(int code, const char *message);
Error *TRITONBACKEND_RequestInputByIndex(Request *, uint32_t index, Input **);
Error *TRITONBACKEND_InputBuffer(
    Input *, uint32_t index, const void **buffer, uint64_t *bytes, int *memory_type, int64_t *memory_id);
Error *TRITONBACKEND_ResponseNew(Response **, Request *);
Error *TRITONBACKEND_ResponseOutput(
    Response *, Output **, const char *name, int datatype, const int64_t *shape, uint32_t dimensions);
Error *TRITONBACKEND_OutputBuffer(Output *, void **buffer, uint64_t bytes, int *memory_type, int64_t *memory_id);
Error *TRITONBACKEND_ResponseSend(Response *, uint32_t flags, Error *);
Error *TRITONBACKEND_RequestRelease(Request *, uint32_t flags);
Error *TRITONBACKEND_ModelInstanceReportStatistics(
    Instance *, Request *, bool success, uint64_t start_ns, uint64_t compute_ns, uint64_t computed_ns, uint64_t end_ns);
Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    Instance *, uint64_t batch, uint64_t start_ns, uint64_t compute_ns, uint64_t computed_ns, uint64_t end_ns);

static const uint64_t NS_PER_S = 1000000000;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t at_ns) {
  const struct timespec until = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
  }
}

/* Read how long a request wants to take, in milliseconds, 0 to a minute. */
static Error *service_time(Request *request, int32_t *service_ms) {
  Input *input;
  const void *buffer;
  uint64_t bytes;
  int memory_type = MEMORY_CPU;
  int64_t memory_id = 0;
  Error *error = TRITONBACKEND_RequestInputByIndex(request, 0, &input);
  if (error == NULL) error = TRITONBACKEND_InputBuffer(input, 0, &buffer, &bytes, &memory_type, &memory_id);
  if (error != NULL) return error;
  if (bytes == sizeof *service_ms && memory_type == MEMORY_CPU) *service_ms = *(const int32_t *)buffer;
  if (bytes != sizeof *service_ms || *service_ms < 0 || *service_ms > 60000) {
    return TRITONSERVER_ErrorNew(ERROR_INVALID_ARGUMENT, "the input must be one INT32, 0..60000 ms");
  }
  return NULL;
}

static Error *write_output(Response *response, int32_t service_ms) {
  const int64_t shape[] = {1};
  Output *output;
  void *buffer;
  int memory_type = MEMORY_CPU;
  int64_t memory_id = 0;
  Error *error = TRITONBACKEND_ResponseOutput(response, &output, "done", DATATYPE_INT32, shape, 1);
  if (error == NULL) error = TRITONBACKEND_OutputBuffer(output, &buffer, sizeof service_ms, &memory_type, &memory_id);
  if (error == NULL) *(int32_t *)buffer = service_ms;
  return error;
}

static void serve(Instance *instance, Request *request) {
  const uint64_t start_ns = now_ns();
  int32_t service_ms = 0;
  Error *error = service_time(request, &service_ms);
  const bool success = error == NULL;
  if (success) sleep_until(start_ns + (uint64_t)service_ms * 1000000);
  const uint64_t computed_ns = now_ns();
  Response *response;
  if (TRITONBACKEND_ResponseNew(&response, request) == NULL) {
    if (success) error = write_output(response, service_ms);
    TRITONBACKEND_ResponseSend(response, RESPONSE_FINAL, error);
  }
  const uint64_t end_ns = now_ns();
  TRITONBACKEND_ModelInstanceReportStatistics(instance, request, success, start_ns, start_ns, computed_ns, end_ns);
  TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, start_ns, start_ns, computed_ns, end_ns);
  TRITONBACKEND_RequestRelease(request, RELEASE_ALL);
}

/* The one function that a backend must have. Requests of a batch are served one after the other. */
Error *TRITONBACKEND_ModelInstanceExecute(Instance *instance, Request **requests, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) serve(instance, requests[i]);
  return NULL;
}
