// Of programs that are built without libheif: such pictures are refused by name.
#include "engine/scene/phone_pictures/phone_pictures.h"

namespace nerf {

void RegisterPhonePictures() {}

}  // namespace nerf
